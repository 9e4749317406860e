// The numbers of the panels, in the order of the view: pictures with their slabs, differences, and what is left out.

import type { PageData, Picture } from './data'
import type { Frame } from './frame'
import { type Slab, projection, slab, slicesIn } from './slab'

/** Of voxels at which a visit has no data; other codes say why nothing is said of a change. */
export const NO_DATA = 100
/** What takes no part in a maximum. */
const LEAST = -32768

export class Arranged {
  private readonly ready = new Map<string, Int16Array>()
  private readonly thickness: number

  /** For one view and one slab. */
  constructor(
    private readonly data: PageData,
    readonly frame: Frame,
    private readonly combined: Slab
  ) {
    this.thickness = slicesIn(frame, combined.slab)
  }

  picture(picture: Picture): Int16Array {
    return this.once(picture.name, () => this.slabOf(this.frame.arrange(picture.values)))
  }

  /** First minus second; 0 where a voxel is left out, which takes no part in slabs either. */
  difference(first: Picture, second: Picture, masked: boolean): Int16Array {
    const left = masked ? this.leftOut(second) : null
    const [a, b] = left === null ? [this.picture(first), this.picture(second)] : [this.without(first, left), this.without(second, left)]
    return a.map((value, i) => value - b[i])
  }

  /** Why nothing is said of a change; 0 where something is, in any slice of the slab. */
  silent(): Int16Array | null {
    const { change } = this.data
    return change && this.once(' silent', () => this.through(this.frame.arrange(change.silent)))
  }

  /** Why the difference to a picture is left out; 0 where it is shown, in any slice of the slab. */
  hidden(second: Picture): Int16Array | null {
    const left = this.leftOut(second)
    return left && this.once(` hidden ${second.name}`, () => this.through(left))
  }

  /** The same for each voxel. */
  private leftOut(second: Picture): Int16Array | null {
    const { change } = this.data
    const { unseen } = second
    if (!change && !unseen) return null
    return this.once(` left ${second.name}`, () => {
      const codes = change ? change.silent.slice() : new Int16Array(second.values.length)
      if (unseen) for (let i = 0; i < codes.length; i++) if (unseen[i] !== 0) codes[i] = NO_DATA
      return this.frame.arrange(codes)
    })
  }

  private without({ values }: Picture, left: Int16Array): Int16Array {
    const nothing = this.combined.slabKind === 'mean' ? 0 : LEAST
    const kept = this.frame.arrange(values)
    for (let i = 0; i < kept.length; i++) if (left[i] !== 0) kept[i] = nothing
    return this.slabOf(kept)
  }

  /** Of the codes in a slab the least: 0 if one of its slices has it. */
  private through(codes: Int16Array): Int16Array {
    const negative = codes.map((code) => -code)
    return slab(negative, this.frame.shape[2], this.thickness, 'maximum').map((code) => -code)
  }

  private slabOf(values: Int16Array): Int16Array {
    const { slab: mm, slabKind } = this.combined
    const n = this.frame.shape[2]
    if (mm !== Infinity || slabKind === 'mean') return slab(values, n, this.thickness, slabKind)
    const inside = this.once(' inside', () => this.frame.arrange(this.data.inside))
    return projection(values, inside, n)
  }

  private once(name: string, make: () => Int16Array): Int16Array {
    let values = this.ready.get(name)
    if (!values) this.ready.set(name, (values = make()))
    return values
  }
}
