// One picture: a NiiVue canvas for the slice, and above it a plain canvas for what is drawn over it.

import { NVImage, Niivue, SLICE_TYPE } from '@niivue/niivue'
import type { Vec3 } from './data'
import { leave } from './focus'
import { type Frame, voxelOf } from './frame'
import { View2D } from './view2d'

/** NIfTI's code. */
const INT16 = 4

export const GREY = 'gray'
export const DIVERGING = 'duotomo-diverging'

/** Purple, black at zero, orange: ordered and distinct under the common colour-vision deficiencies. */
const PURPLE_ORANGE = {
  R: [202, 128, 84, 10, 130, 230, 255],
  G: [190, 110, 39, 10, 70, 145, 214],
  B: [235, 190, 136, 10, 6, 40, 160],
  A: [255, 255, 255, 255, 255, 255, 255],
  I: [0, 48, 96, 128, 160, 208, 255]
}

/** The same colours for a bar: places from 0 to 1. */
export function stopsOf(colours: string): [number, string][] {
  if (colours === GREY) return [[0, '#000000'], [1, '#ffffff']]
  const { R, G, B, I } = PURPLE_ORANGE
  return I.map((at, i) => [at / 255, `rgb(${R[i]} ${G[i]} ${B[i]})`])
}

let counted = 0

export class Panel {
  readonly element = document.createElement('section')
  readonly over = document.createElement('canvas')
  readonly view = new View2D()
  private readonly canvas = document.createElement('canvas')
  private readonly caption = document.createElement('p')
  private readonly heading = document.createElement('h2')
  private readonly stage = document.createElement('div')
  private readonly nv: Niivue
  private image: NVImage | null = null
  private shown: Int16Array | null = null
  private frame: Frame | null = null

  constructor(
    readonly role: string,
    readonly label: string,
    readonly colours: string
  ) {
    this.element.className = 'panel'
    this.element.dataset.role = role
    this.stage.className = 'stage'
    this.over.className = 'over'
    // A reader who sees nothing gets keys and the crosshair's values here, so it takes the focus.
    this.over.tabIndex = 0
    this.over.setAttribute('role', 'application')
    this.over.setAttribute('aria-roledescription', 'picture')
    this.caption.className = 'readout'
    this.caption.id = `readout-${(counted += 1)}`
    this.over.setAttribute('aria-describedby', this.caption.id)
    this.stage.append(this.canvas, this.over)
    this.element.append(this.heading, this.stage, this.caption)
    this.nv = new Niivue({
      interactive: false,
      dragAndDropEnabled: false,
      sliceType: SLICE_TYPE.AXIAL,
      isSliceMM: true,
      isOrientationTextVisible: false,
      isColorbar: false,
      showLegend: false,
      crosshairWidth: 0,
      backColor: [0, 0, 0, 1],
      loadingText: '',
      logLevel: 'error'
    })
  }

  async attach(): Promise<void> {
    await this.nv.attachToCanvas(this.canvas, false)
    this.nv.addColormap(DIVERGING, PURPLE_ORANGE)
  }

  set title(text: string) {
    this.heading.textContent = text
    this.name = text
  }

  /** What it shows, for those who hear it. */
  set name(text: string) {
    this.element.setAttribute('aria-label', text)
    this.over.setAttribute('aria-label', text)
  }

  /** The picture that the title names, where it is a choice. */
  set chosen(name: string) {
    const select = this.heading.querySelector('select')
    if (select) select.value = name
  }

  /** A title that is a choice. */
  choose(label: string, options: [string, string][], now: string, onChoice: (value: string) => void): void {
    const select = document.createElement('select')
    select.name = label
    select.setAttribute('aria-label', label)
    for (const [value, text] of options) select.append(new Option(text, value))
    select.value = now
    select.addEventListener('change', () => {
      onChoice(select.value)
      leave(select)
    })
    this.heading.replaceChildren(select)
  }

  get readout(): string {
    return this.caption.textContent ?? ''
  }

  set readout(text: string) {
    this.caption.textContent = text
  }

  /** Show values that lie in the frame's own order, from `low` (black) to `high` (white). */
  async show(values: Int16Array, frame: Frame, low: number, high: number): Promise<void> {
    this.shown = values
    if (this.image && this.frame === frame) {
      this.image.img = values
      this.window(low, high)
      return
    }
    const [dx, dy, dz] = frame.spacing
    const [x, y, z] = frame.arranged.first
    const affine = [dx, 0, 0, x, 0, dy, 0, y, 0, 0, dz, z, 0, 0, 0, 1]
    const nifti = NVImage.createNiftiArray(frame.shape, frame.spacing, affine, INT16, values)
    // "url" may be the file itself; then nothing is fetched.
    const made = await NVImage.loadFromUrl({
      url: nifti,
      name: 'picture.nii',
      colormap: this.colours,
      cal_min: low,
      cal_max: high,
      colorbarVisible: false
    })
    if (this.image) this.nv.removeVolume(this.image)
    this.image = made
    this.frame = frame
    this.nv.addVolume(made)
    this.window(low, high)
  }

  window(low: number, high: number): void {
    if (!this.image) return
    this.image.cal_min = low
    this.image.cal_max = high
    this.nv.updateGLVolume()
  }

  /** Draw the slice through a point of the picture's frame. */
  draw(at: Vec3, zoom: number, middle: [number, number]): void {
    if (!this.frame || !this.image) return
    const { size } = this.frame
    this.nv.scene.crosshairPos = [at[0] / size[0] + 0.5, at[1] / size[1] + 0.5, at[2] / size[2] + 0.5]
    // NiiVue scales about the middle of its frame, and moves before it scales.
    this.nv.setPan2Dxyzmm([-middle[0] * zoom, -middle[1] * zoom, 0, zoom])
    this.over.width = this.canvas.width
    this.over.height = this.canvas.height
    this.view.update(this.canvas.width, this.canvas.height, size, zoom, middle)
  }

  /** Draw the picture, with what is over it, onto another canvas. */
  drawTo(pen: CanvasRenderingContext2D, x: number, y: number): void {
    // What WebGL has drawn can be read until the browser has shown it.
    this.nv.drawScene()
    pen.drawImage(this.canvas, x, y)
    pen.drawImage(this.over, x, y)
  }

  /** The stored number at a point of the picture's frame. */
  valueAt(at: Vec3): number {
    if (!this.frame || !this.shown) return NaN
    return this.shown[voxelOf(this.frame.arranged, at)]
  }

  onResize(listener: () => void): void {
    new ResizeObserver(listener).observe(this.stage)
  }
}
