// What is drawn over a slice: volume change, uncertainty, the prior's grid, what changed, and the crosshair.

import { nice } from './annotation'
import type { Deformation, Uncertainty, Vec3 } from './data'
import { isolines, planeOf } from './field'
import type { Frame } from './frame'
import { clip, drawColours } from './paint'
import type { State } from './state'
import type { View2D } from './view2d'

export const GRID_COLOUR = '#56b4e9'
export const CROSSHAIR_COLOUR = '#f0e442'
/** Purple where tissue is smaller than in the other visit, orange where it is larger. */
export const SMALLER: Vec3 = [153, 120, 220]
export const LARGER: Vec3 = [240, 150, 40]
/** What the strongest colours may stand for: so many times the volume, or as many times less. */
const RATIOS = [1.1, 1.2, 1.5, 2, 3, 5]
const ratios = new WeakMap<Deformation, number>()
/** Green, the stronger the less sure; grey where the data do not determine the motion. */
export const UNSURE: Vec3 = [60, 210, 150]
export const UNDETERMINED: Vec3 = [125, 125, 125]
const UNDETERMINED_ALPHA = 150
/** What the strongest green may stand for, mm. */
const DEVIATIONS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
const deviations = new WeakMap<Uncertainty, number>()

export function drawOver(
  pen: CanvasRenderingContext2D,
  view: View2D,
  frame: Frame,
  state: State,
  at: Vec3,
  deformation: Deformation | undefined,
  drawMaps: (pen: CanvasRenderingContext2D) => void
): void {
  if (deformation && (state.jacobian || state.uncertainty || state.grid)) {
    pen.save()
    clip(pen, view, frame)
    pen.globalAlpha = state.opacity
    if (state.jacobian) drawChange(pen, view, frame, deformation, at[2])
    if (state.uncertainty && deformation.uncertainty) drawUncertainty(pen, view, frame, deformation.uncertainty, at[2])
    if (state.grid) drawGrid(pen, view, frame, deformation, at[2])
    pen.restore()
  }
  drawMaps(pen)
  if (state.crosshair && at.every(Number.isFinite)) drawCrosshair(pen, view, at)
}

/** The ratio of volumes at the ends of the colours: all but the largest two in a hundred changes are below. */
export function ratioOf(deformation: Deformation): number {
  let ratio = ratios.get(deformation)
  if (ratio === undefined) {
    const changes = deformation.fields[3].filter((value) => !Number.isNaN(value)).map(Math.abs).sort()
    const most = 2 ** (changes[Math.floor(0.98 * changes.length)] ?? 0)
    ratio = RATIOS.find((one) => one >= most - 1e-3) ?? RATIOS[RATIOS.length - 1]
    ratios.set(deformation, ratio)
  }
  return ratio
}

/** The deviation at the end of the colours, mm: all but the largest two in a hundred are below. */
export function deviationOf(uncertainty: Uncertainty): number {
  let most = deviations.get(uncertainty)
  if (most === undefined) {
    const lengths = uncertainty.fields[0].filter((value) => !Number.isNaN(value)).sort()
    const high = lengths[Math.floor(0.98 * lengths.length)] ?? 0
    most = DEVIATIONS.find((one) => one >= high) ?? DEVIATIONS[DEVIATIONS.length - 1]
    deviations.set(uncertainty, most)
  }
  return most
}

function drawChange(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, deformation: Deformation, eye: number): void {
  const most = Math.log2(ratioOf(deformation))
  drawColours(pen, view, planeOf(deformation.lattice, deformation.fields[3], frame, eye), (change) =>
    Number.isNaN(change) ? null : [...(change < 0 ? SMALLER : LARGER), 255 * Math.min(1, Math.abs(change) / most)]
  )
}

function drawUncertainty(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, uncertainty: Uncertainty, eye: number): void {
  const most = deviationOf(uncertainty)
  drawColours(pen, view, planeOf(uncertainty.lattice, uncertainty.fields[0], frame, eye), (mm) =>
    Number.isNaN(mm) ? [...UNDETERMINED, UNDETERMINED_ALPHA] : [...UNSURE, 255 * Math.min(1, mm / most)]
  )
}

function drawGrid(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, deformation: Deformation, eye: number): void {
  const spacing = gridSpacing(frame)
  pen.strokeStyle = GRID_COLOUR
  pen.lineWidth = Math.max(1, 1.25 * devicePixelRatio)
  pen.beginPath()
  for (const { axis } of [frame.axes[0], frame.axes[1]]) {
    const plane = planeOf(deformation.lattice, deformation.fields[axis], frame, eye)
    let least = Infinity
    let most = -Infinity
    for (const value of plane.values) {
      if (value < least) least = value
      if (value > most) most = value
    }
    for (let level = Math.ceil(least / spacing) * spacing; level <= most; level += spacing) {
      for (const [x, y, x1, y1] of isolines(plane, level)) {
        pen.moveTo(...view.toCanvas(x, y))
        pen.lineTo(...view.toCanvas(x1, y1))
      }
    }
  }
  pen.stroke()
}

/** Of the prior's grid: 1, 2, 5 or 10... mm, near a twelfth of the picture's longer side. */
export function gridSpacing(frame: Frame): number {
  return nice(Math.max(frame.size[0], frame.size[1]) / 12)
}

function drawCrosshair(pen: CanvasRenderingContext2D, view: View2D, at: Vec3): void {
  const [x, y] = view.toCanvas(at[0], at[1]).map((pixel) => Math.round(pixel) + 0.5)
  const gap = 9 * devicePixelRatio
  pen.strokeStyle = CROSSHAIR_COLOUR
  pen.globalAlpha = 0.85
  pen.lineWidth = Math.max(1, Math.round(devicePixelRatio))
  pen.beginPath()
  for (const [x0, y0, x1, y1] of [
    [0, y, x - gap, y],
    [x + gap, y, view.width, y],
    [x, 0, x, y - gap],
    [x, y + gap, x, view.height]
  ]) {
    pen.moveTo(x0, y0)
    pen.lineTo(x1, y1)
  }
  pen.stroke()
  pen.globalAlpha = 1
}
