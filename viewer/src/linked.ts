// Crosshairs that are linked through the motion: a visit in its own frame beside the reference.

import type { Picture, Vec3 } from './data'
import type { Frame } from './frame'
import { backward, forward } from './measure'
import { type Symmetric, ellipsoidBack, ellipsoidThere, isPlace, ownName } from './own_frame'
import type { Panel } from './panel'
import { shownAlone } from './state'
import type { Viewer } from './viewer'

export class Linked {
  constructor(private readonly viewer: Viewer) {}

  /** The picture in its own frame that a panel shows, if it does. */
  ownOf(panel: Panel): Picture | null {
    return panel.role === 'prior' && this.viewer.second?.own ? this.viewer.second : null
  }

  /** The frame of a panel's picture: that of all pictures, or its own. */
  frameOf(panel: Panel): Frame {
    const own = this.ownOf(panel)
    return own ? this.viewer.frameOn(own.name, own.lattice) : this.viewer.frame
  }

  /** Where the crosshair is in a panel's frame; not a number where the motion leads nowhere. */
  pointOf(panel: Panel): Vec3 {
    const { point, ownPoint } = this.viewer.store.state
    return this.ownOf(panel) ? (ownPoint ?? backward(this.viewer.deformation(), point)) : point
  }

  /** Put the crosshair where a panel has it; that tissue lies in the reference is not sure in a frame of its own. */
  pointIn(panel: Panel, at: Vec3): void {
    if (!this.ownOf(panel)) {
      this.viewer.store.set({ point: at })
      return
    }
    const deformation = this.viewer.deformation()
    const there = deformation ? forward(deformation, at) : at
    if (isPlace(there)) this.viewer.store.set({ point: this.viewer.frame.inside(there), ownPoint: at })
  }

  /** The ellipsoid that holds the crosshair's tissue in a panel where the reader did not point, if it is known. */
  ellipsoidIn(panel: Panel): Symmetric | null {
    const { point, ownPoint } = this.viewer.store.state
    const deformation = this.viewer.deformation()
    if (!deformation || !this.viewer.second?.own) return null
    if (this.ownOf(panel)) return ownPoint === null ? ellipsoidBack(deformation, point) : null
    return ownPoint === null ? null : ellipsoidThere(deformation, ownPoint)
  }

  /** The panel that keys act in: one in its own frame where the reader is there, or sees no other one. */
  get active(): Panel {
    const alone = shownAlone(this.viewer.store.state)
    const here = this.viewer.panels.find((panel, i) => this.ownOf(panel) && (alone === i || (alone === null && document.activeElement === panel.over)))
    return here ?? this.viewer.panels[0]
  }

  /** The second picture in its own frame, or where it was before. */
  toggle(): void {
    const { second, data } = this.viewer
    if (!second) return
    const own = ownName(data.pictures, second.visit)
    if (second.own) this.viewer.store.set({ second: this.compared?.name ?? data.prior })
    else if (own) this.viewer.store.set({ second: own })
  }

  /** Whether there is a picture of a visit in its own frame. */
  get canShow(): boolean {
    return this.viewer.panels.length > 1 && this.viewer.data.pictures.some(({ own }) => own)
  }

  /** What the first picture is compared with: of a visit in its own frame, the picture that was brought over. */
  get compared(): Picture | null {
    const { second } = this.viewer
    if (!second?.own) return second
    const { pictures } = this.viewer.data
    return pictures.find((one) => one.visit === second.visit && one.registered && one.name !== this.viewer.data.reference) ?? pictures.find((one) => one.visit === second.visit) ?? null
  }
}
