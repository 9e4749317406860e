// What changed between the visits, over a slice: scores, where nothing is said, and circles about findings.

import type { Finding, PageChange, Vec3 } from './data'
import { type Plane, isolines, planeOf } from './field'
import type { Frame } from './frame'
import { clip, drawColours, write } from './paint'
import type { State } from './state'
import type { View2D } from './view2d'

/** Warm and solid for what is new, cool and dashed for what is gone. */
export const NEW: Vec3 = [255, 140, 50]
export const GONE: Vec3 = [90, 190, 255]
export const HATCH_COLOUR = 'rgb(150 158 166 / 65%)'
const MOST_POINTS = 256
/** No circle is smaller, pixels. */
const LEAST_RADIUS = 6

export interface Circle {
  finding: Finding
  /** Middle and radius on the canvas. */
  x: number
  y: number
  radius: number
}

/** The findings that a threshold leaves in the list. */
export function listed(change: PageChange, threshold: number): Finding[] {
  // Thresholds come in steps of a tenth, and scores do not.
  return change.findings.filter(({ z }) => Math.abs(z) >= threshold - 1e-9)
}

/** False findings to expect per breast at a threshold: linear in the logarithm between those known. */
export function expectedAt({ thresholds, expected }: PageChange, threshold: number): number | null {
  const last = thresholds.length - 1
  if (last < 0) return null
  const right = thresholds.findIndex((one) => one > threshold)
  if (right === 0) return expected[0]
  if (right < 0) return expected[last]
  const [a, b] = [expected[right - 1], expected[right]]
  const share = (threshold - thresholds[right - 1]) / (thresholds[right] - thresholds[right - 1])
  if (Math.min(a, b) <= 0) return a + share * (b - a)
  return Math.exp(Math.log(a) + share * (Math.log(b) - Math.log(a)))
}

let last: { frame: Frame; eye: number; plane: Plane } | null = null

/** The scores on a slice; all panels show the same one. */
function scorePlane(frame: Frame, change: PageChange, eye: number): Plane {
  if (last?.frame !== frame || last.eye !== eye) last = { frame, eye, plane: planeOf(frame.lattice, change.scores, frame, eye, MOST_POINTS) }
  return last.plane
}

/** Scores as colours, full from the threshold on and fading below it, with a line at the threshold. */
export function drawScores(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, change: PageChange, state: State): void {
  const { threshold, opacity } = state
  const plane = scorePlane(frame, change, frame.toPicture(state.point)[2])
  pen.save()
  clip(pen, view, frame)
  pen.globalAlpha = opacity
  drawColours(pen, view, plane, (z) =>
    Number.isNaN(z) ? null : [...(z > 0 ? NEW : GONE), 255 * Math.min(1, (z / threshold) ** 2)]
  )
  pen.globalAlpha = 1
  pen.strokeStyle = '#ffffff'
  pen.lineWidth = Math.max(1, 1.25 * devicePixelRatio)
  for (const level of [threshold, -threshold]) {
    pen.setLineDash(level > 0 ? [] : dashes())
    pen.beginPath()
    for (const [x, y, x1, y1] of isolines(plane, level)) {
      pen.moveTo(...view.toCanvas(x, y))
      pen.lineTo(...view.toCanvas(x1, y1))
    }
    pen.stroke()
  }
  pen.restore()
}

/** Lines over the voxels of which nothing is said. silent: in the frame's own order. */
export function drawHatch(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, silent: Int16Array, slice: number): void {
  const [n, m] = frame.shape
  const image = new ImageData(n, m)
  for (let j = 0; j < m; j++) {
    const row = (slice * m + (m - 1 - j)) * n
    for (let i = 0; i < n; i++) if (silent[row + i] !== 0) image.data[4 * (j * n + i) + 3] = 255
  }
  const mask = document.createElement('canvas')
  mask.width = n
  mask.height = m
  mask.getContext('2d')?.putImageData(image, 0, 0)
  const lines = document.createElement('canvas')
  lines.width = pen.canvas.width
  lines.height = pen.canvas.height
  const brush = lines.getContext('2d')
  const pattern = hatch(pen)
  if (!brush || !pattern) return
  const [left, top] = view.toCanvas(-frame.size[0] / 2, frame.size[1] / 2)
  brush.imageSmoothingEnabled = false
  brush.drawImage(mask, left, top, frame.size[0] * view.pixelsPerMm, frame.size[1] * view.pixelsPerMm)
  brush.globalCompositeOperation = 'source-in'
  brush.fillStyle = pattern
  brush.fillRect(0, 0, lines.width, lines.height)
  pen.drawImage(lines, 0, 0)
}

/** Circles of the findings' sizes, on the slices that they reach. */
export function circlesOn(view: View2D, frame: Frame, findings: Finding[], eye: number): Circle[] {
  return findings.flatMap((finding) => {
    const [right, up, depth] = frame.toPicture(finding.place)
    if (Math.abs(eye - depth) > Math.max(finding.size, frame.spacing[2]) / 2) return []
    const [x, y] = view.toCanvas(right, up)
    return [{ finding, x, y, radius: Math.max(LEAST_RADIUS * devicePixelRatio, (finding.size / 2) * view.pixelsPerMm) }]
  })
}

export function drawCircles(pen: CanvasRenderingContext2D, circles: Circle[], chosen: number | null): void {
  const dot = devicePixelRatio
  pen.save()
  pen.font = `bold ${12 * dot}px system-ui, sans-serif`
  pen.textAlign = 'left'
  pen.textBaseline = 'bottom'
  for (const { finding, x, y, radius } of circles) {
    const colour = `rgb(${(finding.kind === 'new' ? NEW : GONE).join()})`
    pen.setLineDash(finding.kind === 'new' ? [] : dashes())
    // On a dark rim, so that it can be seen on tissue too.
    for (const [style, more] of [['rgb(0 0 0 / 80%)', 2], [colour, 0]] as const) {
      pen.strokeStyle = style
      pen.lineWidth = ((finding.number === chosen ? 3 : 1.5) + more) * dot
      pen.beginPath()
      pen.arc(x, y, radius, 0, 2 * Math.PI)
      pen.stroke()
    }
    pen.setLineDash([])
    pen.fillStyle = colour
    write(pen, `${finding.number} ${finding.kind}`, x + 0.75 * radius + 3 * dot, y - 0.75 * radius - dot)
  }
  pen.restore()
}

function dashes(): number[] {
  return [5 * devicePixelRatio, 4 * devicePixelRatio]
}

function hatch(pen: CanvasRenderingContext2D): CanvasPattern | null {
  const size = Math.round(8 * devicePixelRatio)
  const tile = document.createElement('canvas')
  tile.width = tile.height = size
  const brush = tile.getContext('2d')
  if (!brush) return null
  brush.strokeStyle = HATCH_COLOUR
  brush.lineWidth = Math.max(1, devicePixelRatio)
  brush.beginPath()
  // The corners belong to lines of the next tiles.
  for (const shift of [-size, 0, size]) {
    brush.moveTo(shift - 1, size + 1)
    brush.lineTo(shift + size + 1, -1)
  }
  brush.stroke()
  return pen.createPattern(tile, 'repeat')
}
