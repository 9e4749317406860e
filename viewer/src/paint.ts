// Means of drawing over a slice: a clip to the picture, numbers as colours, words that can be read on tissue.

import type { Plane } from './field'
import type { Frame } from './frame'
import type { View2D } from './view2d'

export function clip(pen: CanvasRenderingContext2D, view: View2D, frame: Frame): void {
  const [left, top] = view.toCanvas(-frame.size[0] / 2, frame.size[1] / 2)
  pen.beginPath()
  pen.rect(left, top, frame.size[0] * view.pixelsPerMm, frame.size[1] * view.pixelsPerMm)
  pen.clip()
}

export type Colour = [number, number, number, number]

/** Draw numbers as colours; null leaves the picture as it is. */
export function drawColours(pen: CanvasRenderingContext2D, view: View2D, plane: Plane, colour: (value: number) => Colour | null): void {
  const { n, m, first, step, values } = plane
  const image = new ImageData(n, m)
  for (let j = 0; j < m; j++) {
    for (let i = 0; i < n; i++) {
      const rgba = colour(values[(m - 1 - j) * n + i])
      if (rgba) image.data.set(rgba, 4 * (j * n + i))
    }
  }
  const small = document.createElement('canvas')
  small.width = n
  small.height = m
  small.getContext('2d')?.putImageData(image, 0, 0)
  pen.imageSmoothingEnabled = true
  // Numbers belong to the middles of pixels, so the picture reaches half a pixel beyond them.
  const [left, top] = view.toCanvas(first[0] - step[0] / 2, first[1] + (m - 0.5) * step[1])
  pen.drawImage(small, left, top, n * step[0] * view.pixelsPerMm, m * step[1] * view.pixelsPerMm)
}

/** With a dark rim, so that it can be read on tissue too. */
export function write(pen: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  pen.strokeStyle = 'rgb(0 0 0 / 80%)'
  pen.lineWidth = 3 * devicePixelRatio
  pen.lineJoin = 'round'
  pen.strokeText(text, x, y)
  pen.fillText(text, x, y)
}
