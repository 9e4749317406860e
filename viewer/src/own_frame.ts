// The other visit in its own frame: pictures of it, and where a point of the one frame lies in the other, how surely.

import type { Deformation, Lattice, Picture, Vec3 } from './data'
import { sampler } from './field'

/** A symmetric matrix: xx, yx, yy, zx, zy, zz. */
export type Symmetric = [number, number, number, number, number, number]

const OWN = ' own'
/** An ellipsoid that is thinner is taken to be as thick, mm: of one that has no volume a place would be nowhere beside. */
const THINNEST = 0.01

/** The pictures of the moving visits, each once more, in its own frame and on its own grid. */
export function ownPictures(pictures: Picture[]): Picture[] {
  return pictures
    .filter(({ registered }) => !registered)
    .map((picture) => ({ ...picture, name: picture.name + OWN, title: `Visit ${picture.visit}, own frame`, values: picture.ownValues, own: true, unseen: null }))
}

/** The name of a visit's picture in its own frame, if the page has one. */
export function ownName(pictures: Picture[], visit: number): string | undefined {
  return pictures.find((one) => one.own && one.visit === visit)?.name
}

/** Values of one lattice at the places of another, 0 beyond: a volume where it was, as if nothing had moved. */
export function resampled(values: Int16Array, from: Lattice, to: Lattice): Int16Array {
  const result = new Int16Array(to.shape[0] * to.shape[1] * to.shape[2])
  const [nx, ny] = from.shape
  const strides = [1, nx, nx * ny]
  // For each axis and place the lower neighbour, and how much of the upper one; beyond, nothing of either.
  const along = [0, 1, 2].map((axis) =>
    Array.from({ length: to.shape[axis] }, (_, i) => {
      const at = (to.first[axis] + i * to.spacing[axis] - from.first[axis]) / from.spacing[axis]
      const low = Math.floor(at)
      return [[low, 1 - (at - low)], [low + 1, at - low]].filter(([n, share]) => share > 0 && n >= 0 && n < from.shape[axis]).map(([n, share]) => [n * strides[axis], share])
    })
  )
  let target = 0
  for (const z of along[2]) for (const y of along[1]) for (const x of along[0]) {
    let sum = 0
    for (const [k, c] of z) for (const [j, b] of y) for (const [i, a] of x) sum += values[i + j + k] * a * b * c
    result[target++] = Math.round(sum)
  }
  return result
}

/** Where a point of a visit's own frame lies in the reference. */
export function thereOf({ own }: Deformation, at: Vec3): Vec3 {
  return own.there.map((field) => sampler(own.lattice, field)(at)) as Vec3
}

export function isPlace(mm: Vec3): boolean {
  return mm.every(Number.isFinite)
}

/** The ellipsoid about a point of the visit's own frame, where it lies in the reference; null where it is not known. */
export function ellipsoidThere({ own }: Deformation, at: Vec3): Symmetric | null {
  return matrixAt(own.lattice, own.ellipsoidThere, at)
}

/** The ellipsoid about a point of the reference, where it lies in the visit's own frame; null where it is not known. */
export function ellipsoidBack({ own, lattice }: Deformation, at: Vec3): Symmetric | null {
  return matrixAt(lattice, own.ellipsoidBack, at)
}

function matrixAt(lattice: Lattice, fields: Float32Array[] | null, at: Vec3): Symmetric | null {
  if (fields === null) return null
  const matrix = fields.map((field) => sampler(lattice, field)(at)) as Symmetric
  return matrix.every(Number.isFinite) ? matrix : null
}

/** How far an ellipsoid reaches along x, y and z. */
export function reachOf(matrix: Symmetric): Vec3 {
  return [matrix[0], matrix[2], matrix[5]].map((value) => Math.sqrt(Math.max(0, value))) as Vec3
}

/** In words: where, and within what; the level is a probability. */
export function placeWords(at: Vec3, matrix: Symmetric | null, level: number): string {
  if (!isPlace(at)) return 'not known: the motion leads nowhere from there'
  const where = at.map((mm, axis) => `${'xyz'[axis]} ${mm.toFixed(1).replace('-', '\u2212')}`).join(', ')
  if (matrix === null) return `${where} mm, how surely is not known`
  const reach = reachOf(matrix).map((mm) => mm.toFixed(1)).join(' \u00d7 ')
  return `${where} mm, within ${reach} mm at ${Math.round(100 * level)} %`
}

/** The outline of an ellipsoid seen along the third of three axes: half axes, and the angle of the first, anticlockwise. */
export function outline(matrix: Symmetric, axes: readonly { axis: 0 | 1 | 2; sign: 1 | -1 }[]): { radii: [number, number]; angle: number } {
  const entry = (a: number, b: number): number => {
    const [i, j] = [axes[a].axis, axes[b].axis].sort((x, y) => y - x)
    return axes[a].sign * axes[b].sign * matrix[(i * (i + 1)) / 2 + j]
  }
  const [p, q, r] = [entry(0, 0), entry(0, 1), entry(1, 1)]
  const middle = (p + r) / 2
  const half = Math.hypot((p - r) / 2, q)
  return { radii: [Math.sqrt(middle + half), Math.sqrt(Math.max(0, middle - half))], angle: Math.atan2(2 * q, p - r) / 2 }
}

/** Whether something lies in an ellipsoid: `d Q^-1 d <= 1`, by Cramer's rule; d is how far it is from the middle, mm. */
export function isWithin(matrix: Symmetric, d: Vec3): boolean {
  const [yx, zx, zy] = [matrix[1], matrix[3], matrix[4]]
  const [xx, yy, zz] = [matrix[0], matrix[2], matrix[5]].map((value) => value + THINNEST ** 2)
  const cofactors: Symmetric = [yy * zz - zy * zy, zx * zy - yx * zz, xx * zz - zx * zx, yx * zy - zx * yy, yx * zx - xx * zy, xx * yy - yx * yx]
  const determinant = xx * cofactors[0] + yx * cofactors[1] + zx * cofactors[3]
  const [a, b, c, e, f, g] = cofactors
  const squared = a * d[0] * d[0] + c * d[1] * d[1] + g * d[2] * d[2] + 2 * (b * d[0] * d[1] + e * d[0] * d[2] + f * d[1] * d[2])
  return squared <= determinant
}
