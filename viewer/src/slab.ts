// Slabs: every slice becomes the mean or the maximum of the slices about it.

export type SlabKind = 'mean' | 'maximum'

/** Values are right fastest, slices last; the ends of the volume have thinner slabs. */
export function slab(values: Int16Array, nSlices: number, thickness: number, kind: SlabKind): Int16Array {
  if (thickness <= 1) return values
  const size = values.length / nSlices
  const result = new Int16Array(values.length)
  const before = Math.floor((thickness - 1) / 2)
  if (kind === 'mean') means(values, result, size, nSlices, before, thickness)
  else maxima(values, result, size, nSlices, before, thickness)
  return result
}

function means(values: Int16Array, result: Int16Array, size: number, nSlices: number, before: number, thickness: number): void {
  const sums = new Int32Array(size)
  const add = (slice: number, sign: number): void => {
    const from = slice * size
    for (let i = 0; i < size; i++) sums[i] += sign * values[from + i]
  }
  let low = 0
  let high = 0
  for (let k = 0; k < nSlices; k++) {
    const first = Math.max(0, k - before)
    const end = Math.min(nSlices, k - before + thickness)
    while (high < end) add(high++, 1)
    while (low < first) add(low++, -1)
    const to = k * size
    for (let i = 0; i < size; i++) result[to + i] = Math.round(sums[i] / (end - first))
  }
}

function maxima(values: Int16Array, result: Int16Array, size: number, nSlices: number, before: number, thickness: number): void {
  for (let k = 0; k < nSlices; k++) {
    const first = Math.max(0, k - before)
    const end = Math.min(nSlices, k - before + thickness)
    const to = k * size
    result.set(values.subarray(first * size, (first + 1) * size), to)
    for (let slice = first + 1; slice < end; slice++) {
      const from = slice * size
      for (let i = 0; i < size; i++) {
        if (values[from + i] > result[to + i]) result[to + i] = values[from + i]
      }
    }
  }
}
