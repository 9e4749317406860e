// Fields on a lattice: on one slice of the picture, and at a point.

import type { Lattice, Vec3 } from './data'
import type { Frame } from './frame'

/** A small picture of numbers; columns run to the right, rows upwards. */
export interface Plane {
  n: number
  m: number
  /** Of the first number, and from one to the next: mm in the picture's frame. */
  first: [number, number]
  step: [number, number]
  values: Float32Array
}

/** Numbers along a side, where a field is smooth. */
const N = 96

/** A field, linear between lattice points, on the slice `eye` mm from the middle. */
export function planeOf(lattice: Lattice, field: Float32Array, frame: Frame, eye: number, most = N): Plane {
  const [width, height] = frame.size
  const n = Math.max(2, Math.min(most, 2 * frame.shape[0]))
  const m = Math.max(2, Math.min(most, 2 * frame.shape[1]))
  const step: [number, number] = [width / (n - 1), height / (m - 1)]
  const values = new Float32Array(n * m)
  const at = sampler(lattice, field)
  for (let j = 0; j < m; j++) {
    for (let i = 0; i < n; i++) {
      values[j * n + i] = at(frame.toMachine([-width / 2 + i * step[0], -height / 2 + j * step[1], eye]))
    }
  }
  return { n, m, first: [-width / 2, -height / 2], step, values }
}

/** A function of places in the machine frame; NaN where a lattice point that it takes part of is NaN. */
export function sampler({ shape, spacing, first }: Lattice, field: Float32Array): (mm: Vec3) => number {
  const strides = [1, shape[0], shape[0] * shape[1]]
  return (mm) => {
    let base = 0
    const share: Vec3 = [0, 0, 0]
    for (let axis = 0; axis < 3; axis++) {
      if (shape[axis] < 2) continue
      const at = Math.min(shape[axis] - 1, Math.max(0, (mm[axis] - first[axis]) / spacing[axis]))
      const low = Math.min(shape[axis] - 2, Math.floor(at))
      share[axis] = at - low
      base += low * strides[axis]
    }
    let sum = 0
    for (let corner = 0; corner < 8; corner++) {
      let weight = 1
      let index = base
      for (let axis = 0; axis < 3; axis++) {
        const high = (corner >> axis) & 1
        weight *= high ? share[axis] : 1 - share[axis]
        if (high && shape[axis] > 1) index += strides[axis]
      }
      if (weight > 0) sum += weight * field[index]
    }
    return sum
  }
}

/** Lines along which the numbers have a value: pairs of ends, in the picture's frame. */
export function isolines(plane: Plane, value: number): [number, number, number, number][] {
  const { n, m, first, step, values } = plane
  const lines: [number, number, number, number][] = []
  const place = (i: number, j: number): [number, number] => [first[0] + i * step[0], first[1] + j * step[1]]
  // Two triangles to a square: unlike a square, a triangle is crossed by a level at most once.
  const triangle = (corners: [number, number][]): void => {
    const v = corners.map(([i, j]) => values[j * n + i] - value)
    if (v.some(Number.isNaN)) return
    const ends: [number, number][] = []
    for (const [a, b] of [[0, 1], [1, 2], [2, 0]]) {
      if (v[a] < 0 === v[b] < 0) continue
      const t = v[a] / (v[a] - v[b])
      ends.push(place(corners[a][0] + t * (corners[b][0] - corners[a][0]), corners[a][1] + t * (corners[b][1] - corners[a][1])))
    }
    if (ends.length === 2) lines.push([...ends[0], ...ends[1]])
  }
  for (let j = 0; j + 1 < m; j++) {
    for (let i = 0; i + 1 < n; i++) {
      const at = j * n + i
      const above = Number(values[at] >= value) + Number(values[at + 1] >= value) + Number(values[at + n] >= value) + Number(values[at + n + 1] >= value)
      // Most squares are on one side of the level.
      if (above === 0 || above === 4) continue
      triangle([[i, j], [i + 1, j], [i + 1, j + 1]])
      triangle([[i, j], [i + 1, j + 1], [i, j + 1]])
    }
  }
  return lines
}
