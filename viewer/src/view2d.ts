// Where a point of the picture's frame lies on the canvas.

import type { Vec3 } from './data'

export class View2D {
  width = 1
  height = 1
  pixelsPerMm = 1
  private middle: [number, number] = [0, 0]

  update(width: number, height: number, size: Vec3, zoom: number, middle: [number, number]): void {
    this.width = width
    this.height = height
    this.pixelsPerMm = Math.min(width / size[0], height / size[1]) * zoom
    this.middle = middle
  }

  toCanvas(right: number, up: number): [number, number] {
    return [
      this.width / 2 + (right - this.middle[0]) * this.pixelsPerMm,
      this.height / 2 - (up - this.middle[1]) * this.pixelsPerMm
    ]
  }

  toPicture(x: number, y: number): [number, number] {
    return [
      this.middle[0] + (x - this.width / 2) / this.pixelsPerMm,
      this.middle[1] - (y - this.height / 2) / this.pixelsPerMm
    ]
  }
}
