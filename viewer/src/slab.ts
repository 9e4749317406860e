// Slabs: every slice becomes the mean or the maximum of the slices about it.

import type { Frame } from './frame'

export type SlabKind = 'mean' | 'maximum'

/** What to combine: mm, 0 for one slice and Infinity for the whole depth. */
export interface Slab {
  slab: number
  slabKind: SlabKind
}

/** Slices in a slab of so many mm. */
export function slicesIn(frame: Frame, mm: number): number {
  const [, , n] = frame.shape
  return mm === Infinity ? n : Math.min(n, Math.max(1, Math.round(mm / frame.spacing[2])))
}

/** The first slice of the slab about a slice, and the one after its last. */
export function ends(slice: number, nSlices: number, thickness: number): [number, number] {
  if (thickness >= nSlices) return [0, nSlices]
  const first = slice - Math.floor((thickness - 1) / 2)
  return [Math.max(0, first), Math.min(nSlices, first + thickness)]
}

/** Values are right fastest, slices last; the ends of the volume have thinner slabs. */
export function slab(values: Int16Array, nSlices: number, thickness: number, kind: SlabKind): Int16Array {
  if (thickness <= 1) return values
  if (thickness >= nSlices) return repeated(whole(values, nSlices, kind), nSlices)
  const result = new Int16Array(values.length)
  if (kind === 'mean') means(values, result, nSlices, thickness)
  else maxima(values, result, nSlices, thickness)
  return result
}

/** The maximum of what is inside, along the whole depth; where nothing is inside, of all. */
export function projection(values: Int16Array, inside: Int16Array, nSlices: number): Int16Array {
  const size = values.length / nSlices
  const deep = new Int16Array(size).fill(-32768)
  for (let v = 0; v < values.length; v++) {
    if (inside[v] !== 0 && values[v] > deep[v % size]) deep[v % size] = values[v]
  }
  const all = whole(values, nSlices, 'maximum')
  return repeated(deep.map((value, i) => (value === -32768 ? all[i] : value)), nSlices)
}

function repeated(slice: Int16Array, nSlices: number): Int16Array {
  const result = new Int16Array(slice.length * nSlices)
  for (let k = 0; k < nSlices; k++) result.set(slice, k * slice.length)
  return result
}

/** One slice: the mean or the maximum of all. */
function whole(values: Int16Array, nSlices: number, kind: SlabKind): Int16Array {
  const size = values.length / nSlices
  const most = values.slice(0, size)
  const sums = Int32Array.from(most)
  for (let k = 1; k < nSlices; k++) {
    const from = k * size
    for (let i = 0; i < size; i++) {
      sums[i] += values[from + i]
      if (values[from + i] > most[i]) most[i] = values[from + i]
    }
  }
  return kind === 'mean' ? most.map((_, i) => Math.round(sums[i] / nSlices)) : most
}

function means(values: Int16Array, result: Int16Array, nSlices: number, thickness: number): void {
  const size = values.length / nSlices
  const sums = new Int32Array(size)
  const add = (slice: number, sign: number): void => {
    const from = slice * size
    for (let i = 0; i < size; i++) sums[i] += sign * values[from + i]
  }
  let low = 0
  let high = 0
  for (let k = 0; k < nSlices; k++) {
    const [first, end] = ends(k, nSlices, thickness)
    while (high < end) add(high++, 1)
    while (low < first) add(low++, -1)
    const to = k * size
    for (let i = 0; i < size; i++) result[to + i] = Math.round(sums[i] / (end - first))
  }
}

function maxima(values: Int16Array, result: Int16Array, nSlices: number, thickness: number): void {
  const size = values.length / nSlices
  for (let k = 0; k < nSlices; k++) {
    const [first, end] = ends(k, nSlices, thickness)
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
