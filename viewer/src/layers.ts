// All that is drawn over a picture, from what belongs to tissue up to what is written.

import { type Colours, drawColourBar, drawEdges, drawLabel, drawScale } from './annotation'
import { circlesOn, drawCircles, drawHatch, drawScores, listed } from './change'
import type { Vec3 } from './data'
import type { Frame } from './frame'
import { drawMarks } from './measure_draw'
import { CROSSHAIR_COLOUR, drawOver } from './overlay'
import { type Symmetric, isPlace, outline } from './own_frame'
import { type Panel, stopsOf } from './panel'
import type { View2D } from './view2d'
import type { Viewer } from './viewer'

/** at: where the crosshair is in the panel's frame, as the picture has it. */
export function drawLayers(viewer: Viewer, panel: Panel, at: Vec3): void {
  const pen = panel.over.getContext('2d')
  if (!pen) return
  const { data, store } = viewer
  const { view } = panel
  const frame = viewer.linked.frameOf(panel)
  const own = viewer.linked.ownOf(panel)
  pen.clearRect(0, 0, panel.over.width, panel.over.height)
  // What is known of the motion and of changes is known in the reference frame.
  const registered = panel.role !== 'prior' || viewer.second?.registered !== false
  const deformation = panel.role === 'difference' || !registered ? undefined : viewer.deformation()
  drawOver(pen, view, frame, store.state, at, deformation, () => drawChange(pen, viewer, panel, registered))
  drawMarks(pen, viewer, panel)
  drawEllipsoid(pen, view, frame, at, viewer.linked.ellipsoidIn(panel), panel)
  drawEdges(pen, view, frame, own ? own.letters : data.letters)
  drawScale(pen, view, frame)
  drawColourBar(pen, view, coloursOf(viewer, panel))
  drawLabel(pen, viewer.linesOf(panel))
}

/** The outline of the ellipsoid about the crosshair, in a panel where the reader did not point. */
function drawEllipsoid(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, at: Vec3, matrix: Symmetric | null, panel: Panel): void {
  panel.element.dataset.ellipse = ''
  if (!matrix || !isPlace(at)) return
  const { radii, angle } = outline(matrix, frame.axes)
  const [x, y] = view.toCanvas(at[0], at[1])
  const [a, b] = radii.map((mm) => Math.max(1, mm * view.pixelsPerMm))
  for (const [style, width] of [[RIM, 4], [CROSSHAIR_COLOUR, 1.75]] as const) {
    pen.strokeStyle = style
    pen.lineWidth = width * devicePixelRatio
    pen.beginPath()
    // On a canvas y runs downwards.
    pen.ellipse(x, y, a, b, -angle, 0, 2 * Math.PI)
    pen.stroke()
  }
  panel.element.dataset.ellipse = `${x.toFixed(1)} ${y.toFixed(1)} ${a.toFixed(1)} ${b.toFixed(1)} ${angle.toFixed(3)}`
}

const RIM = 'rgb(0 0 0 / 80%)'

function coloursOf({ data, store }: Viewer, panel: Panel): Colours {
  const { low, high, spread } = store.state
  const ends = panel.role === 'difference' ? { low: -spread, high: spread } : { low, high }
  return { stops: stopsOf(panel.colours), ...ends, unit: data.unit }
}

function drawChange(pen: CanvasRenderingContext2D, viewer: Viewer, panel: Panel, registered: boolean): void {
  const { frame, store } = viewer
  const { state } = store
  const { change } = viewer.data
  const { view } = panel
  const hidden = panel.role === 'difference' ? viewer.hidden() : null
  const hatched = hidden ?? (state.scores && registered ? viewer.silent() : null)
  if (hatched) drawHatch(pen, view, frame, hatched, frame.sliceOf(state.point))
  panel.element.dataset.circles = ''
  if (!change || !registered) return
  if (state.scores) drawScores(pen, view, frame, change, state)
  const circles = state.circles ? circlesOn(view, frame, listed(change, state.threshold), frame.toPicture(state.point)[2]) : []
  drawCircles(pen, circles, state.finding)
  panel.element.dataset.circles = circles
    .map(({ finding, x, y, radius }) => `${finding.number} ${x.toFixed(1)} ${y.toFixed(1)} ${radius.toFixed(1)}`)
    .join('; ')
}
