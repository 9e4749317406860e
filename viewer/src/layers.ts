// All that is drawn over a picture, from what belongs to tissue up to what is written.

import { type Colours, drawColourBar, drawEdges, drawLabel, drawScale } from './annotation'
import { circlesOn, drawCircles, drawHatch, drawScores, listed } from './change'
import { drawMarks } from './measure_draw'
import { drawOver } from './overlay'
import { type Panel, stopsOf } from './panel'
import type { Viewer } from './viewer'

export function drawLayers(viewer: Viewer, panel: Panel): void {
  const pen = panel.over.getContext('2d')
  if (!pen) return
  const { frame, data, store } = viewer
  const { view } = panel
  pen.clearRect(0, 0, panel.over.width, panel.over.height)
  // What is known of the motion and of changes is known in the reference frame.
  const registered = panel.role !== 'prior' || viewer.second?.registered !== false
  const deformation = panel.role === 'difference' || !registered ? undefined : viewer.deformation()
  drawOver(pen, view, frame, store.state, deformation, () => drawChange(pen, viewer, panel, registered))
  drawMarks(pen, viewer, panel)
  drawEdges(pen, view, frame, data.letters)
  drawScale(pen, view, frame)
  drawColourBar(pen, view, coloursOf(viewer, panel))
  drawLabel(pen, viewer.linesOf(panel))
}

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
