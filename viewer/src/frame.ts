// How the machine frame is shown: which of its axes point right, up and towards the eye.

import type { Lattice, Letters, Vec3 } from './data'

export type ViewName = 'above' | 'chest' | 'side'

export const VIEWS: Record<ViewName, { label: string; axis: 'x' | 'y' | 'z' }> = {
  above: { label: 'above (z)', axis: 'z' },
  chest: { label: 'chest wall (y)', axis: 'y' },
  side: { label: 'side (x)', axis: 'x' }
}

/** A machine axis, 0 to 2 for x, y, z, and its direction. */
interface Along {
  axis: 0 | 1 | 2
  sign: 1 | -1
}

const AXIS_NAMES = ['x', 'y', 'z'] as const

const along = (axis: 0 | 1 | 2, sign: 1 | -1): Along => ({ axis, sign })

// Seen from above, right-handed each; the chest wall is at the bottom, left, top and right.
const ABOVE: [Along, Along][] = [
  [along(0, 1), along(1, 1)],
  [along(1, 1), along(0, -1)],
  [along(0, -1), along(1, -1)],
  [along(1, -1), along(0, 1)]
]

/** The voxel of a lattice that holds a point, or the nearest one. */
export function voxelOf({ shape, spacing, first }: Lattice, mm: Vec3): number {
  const [i, j, k] = mm.map((at, axis) =>
    Math.min(shape[axis] - 1, Math.max(0, Math.round((at - first[axis]) / spacing[axis])))
  )
  return (k * shape[1] + j) * shape[0] + i
}

/** The middle of the box about the voxels that a mask has, mm; of all voxels, where it has none. */
export function middleOf({ shape, spacing, first }: Lattice, mask: ArrayLike<number>): Vec3 {
  const low: Vec3 = [...shape]
  const high: Vec3 = [-1, -1, -1]
  const at: Vec3 = [0, 0, 0]
  for (let n = 0; n < mask.length; n++) {
    if (mask[n]) for (let axis = 0; axis < 3; axis++) {
      low[axis] = Math.min(low[axis], at[axis])
      high[axis] = Math.max(high[axis], at[axis])
    }
    for (let axis = 0; axis < 3 && ++at[axis] === shape[axis]; axis++) at[axis] = 0
  }
  return shape.map((count, axis) => first[axis] + (high[axis] < 0 ? (count - 1) / 2 : (low[axis] + high[axis]) / 2) * spacing[axis]) as Vec3
}

/** The picture's own frame: mm to the right, upwards and towards the eye, from the middle of the volume. */
export class Frame {
  readonly axes: [Along, Along, Along]
  readonly shape: Vec3
  readonly spacing: Vec3
  readonly size: Vec3
  /** Of the voxels as `arrange` puts them. */
  readonly arranged: Lattice
  private readonly center: Vec3

  constructor(
    readonly lattice: Lattice,
    view: ViewName,
    turn: number
  ) {
    if (view === 'above') this.axes = [...ABOVE[turn], along(2, 1)]
    else if (view === 'chest') this.axes = [along(0, 1), along(2, 1), along(1, -1)]
    else this.axes = [along(1, 1), along(2, 1), along(0, 1)]
    this.shape = this.axes.map(({ axis }) => lattice.shape[axis]) as Vec3
    this.spacing = this.axes.map(({ axis }) => lattice.spacing[axis]) as Vec3
    this.size = this.shape.map((n, i) => n * this.spacing[i]) as Vec3
    const first = this.shape.map((n, i) => (-(n - 1) / 2) * this.spacing[i]) as Vec3
    this.arranged = { shape: this.shape, spacing: this.spacing, first }
    this.center = lattice.first.map((mm, i) => mm + ((lattice.shape[i] - 1) / 2) * lattice.spacing[i]) as Vec3
  }

  toPicture(mm: Vec3): Vec3 {
    return this.axes.map(({ axis, sign }) => sign * (mm[axis] - this.center[axis])) as Vec3
  }

  toMachine(picture: Vec3): Vec3 {
    const mm: Vec3 = [0, 0, 0]
    this.axes.forEach(({ axis, sign }, i) => (mm[axis] = this.center[axis] + sign * picture[i]))
    return mm
  }

  /** The slice, from 0 at the back to the eye, that holds a point. */
  sliceOf(mm: Vec3): number {
    const n = this.shape[2]
    return Math.min(n - 1, Math.max(0, Math.round(this.toPicture(mm)[2] / this.spacing[2] + (n - 1) / 2)))
  }

  /** The same point on another slice, at its centre. */
  onSlice(mm: Vec3, slice: number): Vec3 {
    const [right, up] = this.toPicture(mm)
    return this.toMachine([right, up, (slice - (this.shape[2] - 1) / 2) * this.spacing[2]])
  }

  /** The point, brought to the nearest one inside the volume. */
  inside(mm: Vec3): Vec3 {
    const picture = this.toPicture(mm).map((value, i) => {
      const most = ((this.shape[i] - 1) / 2) * this.spacing[i]
      return Math.min(most, Math.max(-most, value))
    }) as Vec3
    return this.toMachine(picture)
  }

  /** Where among values (x fastest) a voxel of the picture is: from the left, from the bottom, from the back. */
  voxel(i: number, j: number, k: number): number {
    const [nx, ny] = this.lattice.shape
    const at = [0, 0, 0]
    this.axes.forEach(({ axis, sign }, a) => (at[axis] = sign > 0 ? [i, j, k][a] : this.shape[a] - 1 - [i, j, k][a]))
    return (at[2] * ny + at[1]) * nx + at[0]
  }

  /** Values (x fastest) in the order of the picture: right fastest, then up, then towards the eye. */
  arrange(values: Int16Array): Int16Array {
    const [nx, ny] = this.lattice.shape
    const strides = [1, nx, nx * ny]
    const [right, up, eye] = this.axes.map(({ axis, sign }, i) => {
      const step = strides[axis]
      return sign > 0 ? { start: 0, step } : { start: (this.shape[i] - 1) * step, step: -step }
    })
    const [n, m, l] = this.shape
    const arranged = new Int16Array(values.length)
    let to = 0
    for (let k = 0; k < l; k++) {
      for (let j = 0; j < m; j++) {
        let from = eye.start + k * eye.step + up.start + j * up.step + right.start
        for (let i = 0; i < n; i++, from += right.step) arranged[to++] = values[from]
      }
    }
    return arranged
  }

  /** The names of the picture's edges: left, right, bottom, top; with letters, where they lie in the patient. */
  edges(letters: Letters | null): [string, string, string, string] {
    const name = ({ axis, sign }: Along, end: 1 | -1): string => {
      const high = sign * end > 0 ? 1 : 0
      const letter = letters?.[AXIS_NAMES[axis]][high]
      if (axis === 0) return letter ?? ['\u2212x', '+x'][high]
      const word = (axis === 1 ? ['chest wall', 'nipple'] : ['detector', 'source'])[high]
      return letter ? `${letter} (${word})` : word
    }
    const [right, up] = this.axes
    return [name(right, -1), name(right, 1), name(up, -1), name(up, 1)]
  }
}
