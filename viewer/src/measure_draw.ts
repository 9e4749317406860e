// Rulers, regions and landmarks over the pictures, with their numbers.

import type { Vec3 } from './data'
import type { Frame } from './frame'
import { type Mark, type Region, type Ruler, apart, backward, forward, statistics } from './measure'
import { write } from './paint'
import type { Panel } from './panel'
import type { View2D } from './view2d'
import type { Viewer } from './viewer'

const COLOUR = '#7bf0c0'
const RIM = 'rgb(0 0 0 / 80%)'

export function drawMarks(pen: CanvasRenderingContext2D, viewer: Viewer, panel: Panel): void {
  const { view } = panel
  const { state } = viewer.store
  pen.save()
  pen.font = `${12 * devicePixelRatio}px system-ui, sans-serif`
  pen.textBaseline = 'bottom'
  pen.textAlign = 'left'
  const drawn = state.marks.filter((mark) => {
    if (mark.kind === 'landmark') return drawLandmark(pen, viewer, panel, mark)
    if (viewer.linked.ownOf(panel)) return false
    if (mark.view !== state.view || (mark.view === 'above' && mark.turn !== state.turn)) return false
    if (!isNear(viewer, panel, mark.kind === 'ruler' ? mark.ends[0] : mark.center)) return false
    if (mark.kind === 'ruler') drawRuler(pen, view, viewer.frame, mark)
    else drawRegion(pen, viewer, panel, mark)
    return true
  })
  panel.element.dataset.marks = drawn.map(({ kind, number }) => `${kind} ${number}`).join('; ')
  pen.restore()
}

/** Whether a point lies in the slice, or in the slab, that is shown. */
function isNear(viewer: Viewer, panel: Panel, mm: Vec3): boolean {
  const { slab } = viewer.store.state
  const frame = viewer.linked.frameOf(panel)
  const deep = Math.abs(frame.toPicture(mm)[2] - frame.toPicture(viewer.linked.pointOf(panel))[2])
  return deep <= Math.max(slab, frame.spacing[2]) / 2 + 1e-6
}

function drawRuler(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, { number, ends }: Ruler): void {
  const [from, to] = ends.map((mm) => view.toCanvas(...flat(frame, mm)))
  line(pen, () => {
    pen.moveTo(...from)
    pen.lineTo(...to)
    for (const [x, y] of [from, to]) dot(pen, x, y, 2.5)
  })
  say(pen, `${number}: ${apart(ends[0], ends[1]).toFixed(1)} mm`, to[0], to[1])
}

function drawRegion(pen: CanvasRenderingContext2D, viewer: Viewer, panel: Panel, region: Region): void {
  const { view } = panel
  const [x, y] = view.toCanvas(...flat(viewer.frame, region.center))
  const [a, b] = region.radii.map((mm) => mm * view.pixelsPerMm)
  line(pen, () => {
    pen.moveTo(x + a, y)
    pen.ellipse(x, y, a, b, 0, 0, 2 * Math.PI)
  })
  const { first, linked } = viewer
  const second = linked.compared
  const shown = panel.role === 'prior' && second ? second : first
  const { mean, sd } = statistics(viewer.data, region, '', shown, panel.role === 'difference' ? second : null)
  const words = Number.isNaN(mean) ? 'no data' : `${mean.toFixed(4)} \u00b1 ${Number.isNaN(sd) ? '?' : sd.toFixed(4)}`
  say(pen, `${region.number}: ${words}`, x + 0.7 * a, y - 0.7 * b)
}

/** The place in a panel's own frame; false where the slice does not reach it. */
function drawLandmark(pen: CanvasRenderingContext2D, viewer: Viewer, panel: Panel, mark: Mark & { kind: 'landmark' }): boolean {
  const place = placeIn(viewer, panel, mark)
  if (!place || !isNear(viewer, panel, place)) return false
  const [x, y] = panel.view.toCanvas(...flat(viewer.linked.frameOf(panel), place))
  const arm = 6 * devicePixelRatio
  line(pen, () => {
    for (const [dx, dy] of [[arm, arm], [arm, -arm]]) {
      pen.moveTo(x - dx, y - dy)
      pen.lineTo(x + dx, y + dy)
    }
  })
  say(pen, String(mark.number), x + arm, y - arm)
  return true
}

function placeIn(viewer: Viewer, panel: Panel, { first, second }: Mark & { kind: 'landmark' }): Vec3 | null {
  if (panel.role !== 'prior') return first
  if (!second) return null
  const registered = viewer.second?.registered ?? true
  if (registered === second.registered) return second.place
  return registered ? forward(viewer.deformation(), second.place) : backward(viewer.deformation(), second.place)
}

function flat(frame: Frame, mm: Vec3): [number, number] {
  const [right, up] = frame.toPicture(mm)
  return [right, up]
}

/** On a dark rim, so that it can be seen on tissue too. */
function line(pen: CanvasRenderingContext2D, path: () => void): void {
  for (const [style, width] of [[RIM, 4], [COLOUR, 1.75]] as const) {
    pen.strokeStyle = style
    pen.lineWidth = width * devicePixelRatio
    pen.beginPath()
    path()
    pen.stroke()
  }
}

function dot(pen: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  pen.moveTo(x + radius * devicePixelRatio, y)
  pen.arc(x, y, radius * devicePixelRatio, 0, 2 * Math.PI)
}

function say(pen: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  const gap = 5 * devicePixelRatio
  pen.fillStyle = COLOUR
  // Words stay inside the picture.
  const left = Math.min(x + gap, pen.canvas.width - pen.measureText(text).width - gap)
  write(pen, text, Math.max(gap, left), Math.max(16 * devicePixelRatio, y - gap))
}
