// What is written on a picture: which visit and breast it is, where its edges lie, a scale, and what its colours mean.

import type { Letters } from './data'
import type { Frame } from './frame'
import { write } from './paint'
import type { View2D } from './view2d'

/** The colours of a panel, by place from 0 to 1, and the values at its ends. */
export interface Colours {
  stops: [number, string][]
  low: number
  high: number
  unit: string
}

const INK = '#ffffff'
const SOFT = '#c3ccd4'

export function drawEdges(pen: CanvasRenderingContext2D, view: View2D, frame: Frame, letters: Letters | null): void {
  const [left, right, bottom, top] = frame.edges(letters)
  const { width, height } = view
  const edge = 9 * devicePixelRatio
  pen.fillStyle = SOFT
  pen.font = font(11)
  pen.textAlign = 'center'
  pen.textBaseline = 'middle'
  write(pen, top, width / 2, edge)
  write(pen, bottom, width / 2, height - edge)
  for (const [text, x, turn] of [[left, edge, -1], [right, width - edge, 1]] as const) {
    pen.save()
    pen.translate(x, height / 2)
    pen.rotate((turn * Math.PI) / 2)
    write(pen, text, 0, 0)
    pen.restore()
  }
}

/** In the upper left corner, so that nobody takes one visit for another. */
export function drawLabel(pen: CanvasRenderingContext2D, lines: string[]): void {
  const dot = devicePixelRatio
  pen.textAlign = 'left'
  pen.textBaseline = 'top'
  lines.filter(Boolean).forEach((line, i) => {
    pen.font = font(12, i === 0 ? 'bold ' : '')
    pen.fillStyle = i === 0 ? INK : SOFT
    write(pen, line, 8 * dot, (20 + 16 * i) * dot)
  })
}

export function drawScale(pen: CanvasRenderingContext2D, view: View2D, frame: Frame): void {
  const length = nice(Math.min(frame.size[0], view.width / view.pixelsPerMm) / 4)
  const dot = devicePixelRatio
  const [x, y] = [12 * dot, view.height - 22 * dot]
  pen.fillStyle = INK
  pen.fillRect(x, y, length * view.pixelsPerMm, 2 * dot)
  pen.font = font(11)
  pen.textAlign = 'left'
  pen.textBaseline = 'bottom'
  write(pen, `${length} mm`, x, y - 2 * dot)
}

/** In the lower right corner: the colours from the least value to the largest, with numbers and the unit. */
export function drawColourBar(pen: CanvasRenderingContext2D, view: View2D, { stops, low, high, unit }: Colours): void {
  const dot = devicePixelRatio
  const [width, height] = [Math.min(110 * dot, 0.3 * view.width), 7 * dot]
  const [x, y] = [view.width - width - 26 * dot, view.height - 27 * dot]
  const colours = pen.createLinearGradient(x, 0, x + width, 0)
  for (const [place, colour] of stops) colours.addColorStop(place, colour)
  pen.fillStyle = colours
  pen.fillRect(x, y, width, height)
  pen.strokeStyle = SOFT
  pen.lineWidth = dot
  pen.strokeRect(x, y, width, height)
  pen.font = font(10.5)
  pen.fillStyle = INK
  pen.textBaseline = 'top'
  const middle = (low + high) / 2
  const far = Math.max(Math.abs(low), Math.abs(high))
  const widest = Math.max(...[low, middle, high].map((value) => pen.measureText(short(value, far)).width))
  // Three numbers where they do not touch.
  const ticks = width / 2 > (middle === 0 ? 0.5 : 1) * widest + 6 * dot ? [low, middle, high] : [low, high]
  for (const value of ticks) {
    pen.textAlign = 'center'
    write(pen, short(value, far), x + ((value - low) / (high - low)) * width, y + height + 2 * dot)
  }
  pen.textAlign = 'right'
  pen.textBaseline = 'bottom'
  write(pen, unit, x + width, y - 2 * dot)
}

/** A number on a scale that reaches so far, with three digits of it; zero has none. */
export function short(value: number, far: number): string {
  if (value === 0) return '0'
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(far || 1))))
  return value.toFixed(digits).replace(/^-/, '\u2212').replace(/^\u2212(0(\.0*)?)$/, '$1')
}

/** 1, 2, 5 or 10..., near a length. */
export function nice(length: number): number {
  const power = 10 ** Math.floor(Math.log10(length))
  return [1, 2, 5, 10].map((digit) => digit * power).reduce((a, b) => (Math.abs(b - length) < Math.abs(a - length) ? b : a))
}

function font(size: number, weight = ''): string {
  return `${weight}${size * devicePixelRatio}px system-ui, sans-serif`
}
