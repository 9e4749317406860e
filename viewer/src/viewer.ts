// The panels, and what follows from each change of the state.

import { circlesOn, drawCircles, drawHatch, drawScores, listed } from './change'
import type { Deformation, PageData, Picture, Vec3 } from './data'
import { sampler } from './field'
import { Frame, voxelOf } from './frame'
import { drawOver } from './overlay'
import { DIVERGING, GREY, Panel } from './panel'
import { slab } from './slab'
import { type State, Store } from './state'

/** Height of a panel's title and readout, pixels. */
const CAPTIONS = 62
/** Of a second line of the readout. */
const LINE = 18

/** Among the arranged pictures, where nothing is said; no picture has that name. */
const SILENT = ' silent'

const placement = ({ view, turn }: State): string => (view === 'above' ? `above ${turn}` : view)

export class Viewer {
  readonly element = document.createElement('div')
  readonly panels: Panel[]
  readonly store: Store
  private readonly frames = new Map<string, Frame>()
  private readonly start: State
  /** Pictures in the frame's order, with the slab applied. */
  private readonly ready = new Map<string, Int16Array>()
  private shown = ''
  private busy = false
  private again = false

  constructor(readonly data: PageData) {
    const [low, high] = data.window
    const frame = new Frame(data.lattice, 'above', data.turn)
    this.start = {
      first: data.reference,
      second: data.prior,
      point: frame.onSlice(frame.toMachine([0, 0, 0]), Math.floor(frame.shape[2] / 2)),
      view: 'above',
      turn: data.turn,
      slab: 1,
      slabKind: 'mean',
      low,
      high,
      spread: data.spread,
      zoom: 1,
      middle: [0, 0],
      crosshair: true,
      grid: false,
      jacobian: false,
      uncertainty: false,
      opacity: 0.7,
      scores: false,
      threshold: data.change?.threshold ?? 0,
      circles: true,
      finding: null,
      masked: true,
      swapped: false,
      blinking: false,
      alone: null,
      drag: 'point'
    }
    this.store = new Store(this.start)
    this.panels = [new Panel('reference', 'first', GREY)]
    if (data.prior !== null) this.panels.push(new Panel('prior', 'second', GREY), new Panel('difference', 'difference', DIVERGING))
    this.element.className = 'panels'
    if (data.change || data.deformations.some((one) => one.uncertainty)) this.element.classList.add('sure')
    this.element.append(...this.panels.map((panel) => panel.element))
    this.nameTitles()
    this.store.onChange(() => this.update())
  }

  async attach(): Promise<void> {
    for (const panel of this.panels) await panel.attach()
    await this.render()
    for (const panel of this.panels) panel.onResize(() => this.update())
  }

  /** The frame of the view that the state asks for; always the same object for the same view. */
  get frame(): Frame {
    const { view, turn } = this.store.state
    const name = placement(this.store.state)
    let frame = this.frames.get(name)
    if (!frame) this.frames.set(name, (frame = new Frame(this.data.lattice, view, turn)))
    return frame
  }

  /** All as it was when the page was opened, but for the place and the pictures. */
  reset(): void {
    const { point, first, second } = this.store.state
    this.store.set({ ...this.start, point, first, second })
  }

  toSlice(slice: number): void {
    const { point } = this.store.state
    const inside = Math.min(this.frame.shape[2] - 1, Math.max(0, slice))
    this.store.set({ point: this.frame.onSlice(point, inside) })
  }

  scroll(slices: number): void {
    this.toSlice(this.frame.sliceOf(this.store.state.point) + slices)
  }

  /** Show the other visit in the same place: both pictures change places, or the one shown is exchanged. */
  blink(): void {
    const { swapped, alone } = this.store.state
    if (this.panels.length < 2) return
    this.store.set({ swapped: !swapped, alone: alone === null ? null : alone === 0 ? 1 : 0 })
  }

  /** Go to a finding's place, in all pictures. */
  toFinding(number: number): void {
    const { change, reference } = this.data
    const finding = change?.findings.find((one) => one.number === number)
    if (!change || !finding) return
    const { state } = this.store
    const [right, up] = this.frame.toPicture(finding.place)
    this.store.set({
      finding: number,
      point: this.frame.inside(finding.place),
      first: state.first === change.prior ? reference : state.first,
      second: change.prior ?? state.second,
      circles: true,
      middle: state.zoom > 1 ? [right, up] : state.middle
    })
  }

  /** Go to the next finding of those that the threshold leaves, or back. */
  stepFinding(by: 1 | -1): void {
    const { change } = this.data
    const { threshold, finding } = this.store.state
    const numbers = change ? listed(change, threshold).map(({ number }) => number) : []
    if (numbers.length === 0) return
    const now = finding === null ? -1 : numbers.indexOf(finding)
    const next = now < 0 ? (by > 0 ? 0 : numbers.length - 1) : (now + by + numbers.length) % numbers.length
    this.toFinding(numbers[next])
  }

  deformation(): Deformation | undefined {
    const { deformations } = this.data
    const visit = this.store.state.second
    return deformations.find((one) => one.of === visit) ?? deformations[0]
  }

  picture(name: string): Picture {
    const found = this.data.pictures.find((one) => one.name === name)
    if (!found) throw new Error(`The page has no volume ${name}.`)
    return found
  }

  private update(): void {
    this.again = true
    this.element.dataset.drawn = 'false'
    if (this.busy) return
    this.busy = true
    requestAnimationFrame(() => {
      void this.render().finally(() => {
        this.busy = false
        if (this.again) this.update()
        else this.element.dataset.drawn = 'true'
      })
    })
  }

  private async render(): Promise<void> {
    this.again = false
    const { state } = this.store
    await this.prepare(state)
    // A change meanwhile is drawn next time.
    if (this.store.state !== state) {
      this.again = true
      return
    }
    const at = this.frame.toPicture(state.point)
    this.element.classList.toggle('swapped', state.swapped && state.alone === null)
    this.element.classList.toggle('one', state.alone !== null)
    this.element.classList.toggle('stacked', this.isWide())
    this.panels.forEach((panel, i) => {
      panel.element.classList.toggle('front', state.alone === i)
      panel.chosen = (panel.role === 'prior' ? state.second : state.first) ?? ''
      panel.draw(at, state.zoom, state.middle)
      const deformation = panel.role === 'difference' ? undefined : this.deformation()
      drawOver(panel.over, panel.view, this.frame, state, deformation, (pen) => this.drawChange(pen, panel, state))
      const [x, y] = panel.view.toCanvas(at[0], at[1])
      panel.element.dataset.crosshair = `${x.toFixed(1)} ${y.toFixed(1)}`
      panel.element.dataset.slice = String(this.frame.sliceOf(state.point))
      panel.readout = this.read(panel, at)
    })
  }

  private drawChange(pen: CanvasRenderingContext2D, panel: Panel, state: State): void {
    const { change } = this.data
    if (!change) return
    const { view } = panel
    const silent = this.silent(state)
    if (silent && (state.scores || (panel.role === 'difference' && state.masked))) {
      drawHatch(pen, view, this.frame, silent, this.frame.sliceOf(state.point))
    }
    if (state.scores) drawScores(pen, view, this.frame, change, state)
    const eye = this.frame.toPicture(state.point)[2]
    const circles = state.circles ? circlesOn(view, this.frame, listed(change, state.threshold), eye) : []
    drawCircles(pen, circles, state.finding)
    panel.element.dataset.circles = circles
      .map(({ finding, x, y, radius }) => `${finding.number} ${x.toFixed(1)} ${y.toFixed(1)} ${radius.toFixed(1)}`)
      .join('; ')
  }

  /** Whether the pictures are larger below each other than side by side. */
  private isWide(): boolean {
    const { clientWidth, clientHeight } = this.element
    const [width, height] = this.frame.size
    const n = this.panels.length
    const captions = CAPTIONS + (this.element.classList.contains('sure') ? LINE : 0)
    const inRows = Math.min(clientWidth / width, (clientHeight / n - captions) / height)
    return inRows > Math.min(clientWidth / n / width, (clientHeight - captions) / height)
  }

  /** Titles; where there are more than two pictures, a reader can choose others. */
  private nameTitles(): void {
    const { pictures } = this.data
    const [first, second, difference] = this.panels
    const chosen = pictures.length > (second ? 2 : 1)
    const options = pictures.map(({ name, title }): [string, string] => [name, title])
    if (chosen) {
      first.choose('First picture', options, this.start.first, (name) => this.store.set({ first: name }))
      second?.choose('Second picture', options, this.start.second ?? '', (name) => this.store.set({ second: name }))
    } else {
      first.title = this.picture(this.start.first).title
      if (second && this.start.second) second.title = this.picture(this.start.second).title
    }
    if (difference) difference.title = 'Difference, first \u2212 second'
  }

  /** Bring into the panels what is to be shown, if it is not there yet. */
  private async prepare(state: State): Promise<void> {
    const order = `${placement(state)} ${state.slab} ${state.slabKind}`
    const content = `${order} ${state.first} ${state.second} ${state.masked}`
    const window = `${state.low} ${state.high} ${state.spread}`
    const now = [order, content, window].join('|')
    if (now === this.shown) return
    const [beforeOrder, beforeContent] = this.shown.split('|')
    this.shown = now
    if (order !== beforeOrder) this.ready.clear()
    const { slope } = this.data
    const [low, high, spread] = [state.low / slope, state.high / slope, state.spread / slope]
    const ranges = [[low, high], [low, high], [-spread, spread]]
    if (content === beforeContent) {
      this.panels.forEach((panel, i) => panel.window(ranges[i][0], ranges[i][1]))
      return
    }
    const first = this.arranged(state.first, state)
    await this.panels[0].show(first, this.frame, low, high)
    if (state.second === null) return
    const second = this.arranged(state.second, state)
    await this.panels[1].show(second, this.frame, low, high)
    await this.panels[2].show(this.difference(state, first, second), this.frame, -spread, spread)
  }

  /** First minus second; 0 where nothing is said. */
  private difference(state: State, first: Int16Array, second: Int16Array): Int16Array {
    const { change } = this.data
    if (!change || !state.masked || state.second === null) return first.map((value, i) => value - second[i])
    const silent = this.frame.arrange(change.silent)
    // What is not said takes no part in a slab: it adds nothing to means, and is no maximum.
    const left = state.slabKind === 'mean' ? 0 : -32768
    const [a, b] = [state.first, state.second].map((name) => {
      const values = this.frame.arrange(this.picture(name).values)
      for (let i = 0; i < values.length; i++) if (silent[i] !== 0) values[i] = left
      return slab(values, this.frame.shape[2], state.slab, state.slabKind)
    })
    return a.map((value, i) => value - b[i])
  }

  /** Why nothing is said, in the frame's order; 0 where something is, in any slice of the slab. */
  private silent({ slab: thickness }: State): Int16Array | null {
    const { change } = this.data
    if (!change) return null
    let values = this.ready.get(SILENT)
    if (!values) {
      const negative = this.frame.arrange(change.silent).map((code) => -code)
      values = slab(negative, this.frame.shape[2], thickness, 'maximum').map((code) => -code)
      this.ready.set(SILENT, values)
    }
    return values
  }

  private arranged(name: string, { slab: thickness, slabKind }: State): Int16Array {
    let values = this.ready.get(name)
    if (!values) {
      values = slab(this.frame.arrange(this.picture(name).values), this.frame.shape[2], thickness, slabKind)
      this.ready.set(name, values)
    }
    return values
  }

  private read(panel: Panel, at: Vec3): string {
    const value = panel.valueAt(at) * this.data.slope
    const sign = panel.role === 'difference' && value > 0 ? '+' : ''
    const many = this.panels.length > 1
    const sure = panel.role === (many ? 'prior' : 'reference') ? this.howSure() : ''
    const changed = panel.role === (many ? 'difference' : 'reference') ? this.whatChanged() : ''
    const more = [sure, changed].filter(Boolean).join('; ')
    if (panel.role === 'difference' && this.isMasked(at)) return `not shown\n${more}`
    const text = `${sign}${value.toFixed(4)} ${this.data.unit}`
    return more ? `${text}\n${more}` : text
  }

  private isMasked(at: Vec3): boolean {
    const { state } = this.store
    const silent = state.masked ? this.silent(state) : null
    return silent !== null && silent[voxelOf(this.frame.arranged, at)] !== 0
  }

  /** The score at the crosshair, or why there is none. */
  private whatChanged(): string {
    const { change, lattice } = this.data
    if (!change) return ''
    const voxel = voxelOf(lattice, this.store.state.point)
    const z = change.scores[voxel]
    if (Number.isNaN(z)) {
      const why = change.reasons[String(change.silent[voxel])] ?? (change.compared ? '' : 'the visits were not compared')
      return why ? `nothing is said here: ${why}` : 'nothing is said here'
    }
    return `z = ${z > 0 ? '+' : z < 0 ? '\u2212' : ''}${Math.abs(z).toFixed(1)}`
  }

  /** How sure the motion of the other visit is at the crosshair. */
  private howSure(): string {
    const deformation = this.deformation()
    if (!deformation?.uncertainty) return ''
    const { lattice, fields } = deformation.uncertainty
    const [plane, depth] = [fields[1], fields[2]].map((field) => sampler(lattice, field)(this.store.state.point))
    if (Number.isNaN(plane) || Number.isNaN(depth)) return `${deformation.title}: motion not determined here`
    return `${deformation.title}: \u00b1${digits(plane)} mm in plane, ${digits(depth)} mm in depth`
  }
}

/** Two digits, as many as a deviation deserves. */
function digits(mm: number): string {
  return mm < 10 ? String(Number(mm.toPrecision(2))) : mm.toFixed(0)
}
