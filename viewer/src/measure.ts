// Rulers, regions and pairs of landmarks: what they are, and their numbers.

import type { Deformation, PageData, Picture, Vec3 } from './data'
import { sampler } from './field'
import { Frame, type ViewName } from './frame'
import { thereOf } from './own_frame'
import { type SlabKind, ends, slicesIn } from './slab'

interface Numbered {
  number: number
}

/** A length between two points in the plane of a view. */
export interface Ruler extends Numbered {
  kind: 'ruler'
  view: ViewName
  turn: number
  ends: [Vec3, Vec3]
}

/** An ellipse in the plane of a view, and the slab that its numbers are of. */
export interface Region extends Numbered {
  kind: 'region'
  view: ViewName
  turn: number
  center: Vec3
  /** To the right and upwards, mm. */
  radii: [number, number]
  slab: number
  slabKind: SlabKind
}

/** The same tissue in two visits, each where it lies in the picture it was marked in. */
export interface Pair extends Numbered {
  kind: 'landmark'
  first: Vec3 | null
  /** Where in the other visit, of which picture, and whether that picture lies in the reference frame. */
  second: { place: Vec3; name: string; registered: boolean } | null
}

export type Mark = Ruler | Region | Pair

export function nextNumber(marks: Mark[], kind: Mark['kind']): number {
  return 1 + Math.max(0, ...marks.filter((one) => one.kind === kind).map(({ number }) => number))
}

export function apart(a: Vec3, b: Vec3): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2])
}

export function areaOf({ radii }: Region): number {
  return Math.PI * radii[0] * radii[1]
}

/** Numbers of the voxels in a region; of a difference, of those where both visits have data. */
export interface Statistics {
  picture: string
  n: number
  mean: number
  /** Standard deviation, of the sample. */
  sd: number
}

export function statistics(data: PageData, region: Region, title: string, first: Picture, less: Picture | null = null): Statistics {
  const frame = new Frame(data.lattice, region.view, region.turn)
  const at = frame.toPicture(region.center)
  const [n, m, depth] = frame.shape
  const [low, high] = ends(frame.sliceOf(region.center), depth, slicesIn(frame, region.slab))
  const index = (mm: number, axis: 0 | 1): number => mm / frame.spacing[axis] + (frame.shape[axis] - 1) / 2
  const values: number[] = []
  const inside = (i: number, j: number): boolean =>
    Math.hypot(((i - index(at[0], 0)) * frame.spacing[0]) / region.radii[0], ((j - index(at[1], 1)) * frame.spacing[1]) / region.radii[1]) <= 1
  const deep = region.slab === Infinity && region.slabKind === 'maximum'
  /** What is shown of a column of voxels, or of those of them that count. */
  const column = (i: number, j: number, counts: (v: number) => boolean): number => {
    const slabs = [first, ...(less ? [less] : [])].map(({ values }) => {
      let [sum, most, count] = [0, -Infinity, 0]
      for (let k = low; k < high; k++) {
        const v = frame.voxel(i, j, k)
        if ((less?.unseen && less.unseen[v] !== 0) || !counts(v)) continue
        sum += values[v]
        most = Math.max(most, values[v])
        count += 1
      }
      return count === 0 ? NaN : region.slabKind === 'mean' ? sum / count : most
    })
    return (slabs[0] - (slabs[1] ?? 0)) * data.slope
  }
  const add = (i: number, j: number): void => {
    const within = deep ? column(i, j, (v) => data.inside[v] !== 0) : NaN
    const value = Number.isNaN(within) ? column(i, j, () => true) : within
    if (!Number.isNaN(value)) values.push(value)
  }
  const [left, right] = reach(index(at[0], 0), region.radii[0] / frame.spacing[0], n)
  const [bottom, top] = reach(index(at[1], 1), region.radii[1] / frame.spacing[1], m)
  for (let j = bottom; j <= top; j++) for (let i = left; i <= right; i++) if (inside(i, j)) add(i, j)
  if (values.length === 0) add(Math.round(index(at[0], 0)), Math.round(index(at[1], 1)))
  const mean = values.reduce((a, b) => a + b, 0) / values.length
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
  return { picture: title, n: values.length, mean, sd: Math.sqrt(squares / (values.length - 1)) }
}

function reach(middle: number, radius: number, n: number): [number, number] {
  return [Math.max(0, Math.ceil(middle - radius)), Math.min(n - 1, Math.floor(middle + radius))]
}

/** How far a pair's points are apart, mm: with the motion found, and without any; NaN if it is not whole. */
export interface Distance {
  after: number
  before: number
}

export function distance({ first, second }: Pair, deformation: Deformation | undefined): Distance {
  if (!first || !second) return { after: NaN, before: NaN }
  const known = second.registered ? { moved: second.place, own: backward(deformation, second.place) } : { moved: forward(deformation, second.place), own: second.place }
  return { after: apart(first, known.moved), before: apart(first, known.own) }
}

/** Where a point of the reference frame was in the other visit. */
export function backward(deformation: Deformation | undefined, at: Vec3): Vec3 {
  if (!deformation) return at
  const [x, y, z] = deformation.fields.map((field) => sampler(deformation.lattice, field)(at))
  return [x, y, z]
}

/** Where a point of the other visit comes to lie: the r with backward(r) = at. */
export function forward(deformation: Deformation | undefined, at: Vec3): Vec3 {
  let moved = deformation ? thereOf(deformation, at) : at
  let left = Infinity
  // Motions that turn by little: the distance left shrinks with every step, to where `backward` comes from.
  for (let step = 0; step < 50; step++) {
    const own = backward(deformation, moved)
    const missed = apart(own, at)
    if (!(missed < 0.9 * left)) break
    left = missed
    if (missed < 1e-3) break
    moved = moved.map((mm, axis) => mm + at[axis] - own[axis]) as Vec3
  }
  return moved
}
