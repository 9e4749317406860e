// The panels, and what follows from each change of the state.

import { Arranged } from './arranged'
import { listed } from './change'
import type { Deformation, Lattice, PageData, Picture } from './data'
import { Frame, middleOf } from './frame'
import { drawLayers } from './layers'
import { Linked } from './linked'
import { isPlace, ownName } from './own_frame'
import { DIVERGING, GREY, Panel } from './panel'
import { readout } from './readout'
import { slicesIn } from './slab'
import { type State, Store, shownAlone } from './state'

/** Height of a panel's title and readout, pixels. */
const CAPTIONS = 62
/** Of two more lines of the readout. */
const LINES = 36

const placement = ({ view, turn }: State): string => (view === 'above' ? `above ${turn}` : view)

export class Viewer {
  readonly element = document.createElement('div')
  readonly panels: Panel[]
  readonly store: Store
  readonly linked = new Linked(this)
  private readonly frames = new Map<string, Frame>()
  private readonly start: State
  private arranged: Arranged
  private arrangedOwn: Arranged | null = null
  private shown = ''
  private attached = false
  private busy = false
  private again = false

  constructor(readonly data: PageData) {
    const [low, high] = data.window
    const frame = new Frame(data.lattice, 'above', data.turn)
    const linked = data.linked && data.prior !== null ? ownName(data.pictures, data.pictures.find(({ name }) => name === data.prior)?.visit ?? 2) : undefined
    const middle = middleOf(data.lattice, data.inside)
    this.start = {
      first: data.reference,
      second: linked ?? data.prior,
      point: frame.onSlice(middle, frame.sliceOf(middle)),
      ownPoint: null,
      view: 'above',
      turn: data.turn,
      slab: 0,
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
      narrow: false,
      tool: 'point',
      marks: []
    }
    this.store = new Store(this.start)
    this.arranged = new Arranged(data, frame, this.start)
    this.panels = [new Panel('reference', 'first', GREY)]
    if (data.prior !== null) this.panels.push(new Panel('prior', 'second', GREY), new Panel('difference', 'difference', DIVERGING))
    this.element.className = 'panels'
    if (data.change || this.hasGaps || data.deformations.length > 0) this.element.classList.add('sure')
    this.element.append(...this.panels.map((panel) => panel.element))
    this.nameTitles()
    this.store.onChange(() => this.update())
  }

  async attach(): Promise<void> {
    for (const panel of this.panels) await panel.attach()
    this.attached = true
    await this.render()
    for (const panel of this.panels) panel.onResize(() => this.update())
  }

  /** The frame of the view that the state asks for; always the same object for the same view. */
  get frame(): Frame {
    return this.frameOn('', this.data.lattice)
  }

  /** The same on another lattice, by the name of the picture that has it. */
  frameOn(of: string, lattice: Lattice): Frame {
    const { view, turn } = this.store.state
    const name = `${of} ${placement(this.store.state)}`
    let frame = this.frames.get(name)
    if (!frame) this.frames.set(name, (frame = new Frame(lattice, view, turn)))
    return frame
  }

  /** Whether a visit lacks data somewhere that another one has. */
  get hasGaps(): boolean {
    return this.data.pictures.some(({ unseen }) => unseen !== null)
  }

  /** All as it was when the page was opened, but for the place, the pictures and what was measured. */
  reset(): void {
    const { point, first, second, narrow, marks } = this.store.state
    this.store.set({ ...this.start, point, first, second, narrow, marks })
  }

  toSlice(slice: number): void {
    const { point } = this.store.state
    const inside = Math.min(this.frame.shape[2] - 1, Math.max(0, slice))
    this.store.set({ point: this.frame.onSlice(point, inside) })
  }

  scroll(slices: number, panel: Panel = this.linked.active): void {
    if (!this.linked.ownOf(panel)) {
      this.toSlice(this.frame.sliceOf(this.store.state.point) + slices)
      return
    }
    const frame = this.linked.frameOf(panel)
    const at = frame.inside(this.linked.pointOf(panel))
    if (!isPlace(at)) return
    const slice = Math.min(frame.shape[2] - 1, Math.max(0, frame.sliceOf(at) + slices))
    this.linked.pointIn(panel, frame.onSlice(at, slice))
  }

  /** Show the other visit in the same place: both pictures change places, or the one shown is exchanged. */
  blink(): void {
    const { swapped } = this.store.state
    const alone = shownAlone(this.store.state)
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
    const { second } = this
    return deformations.find((one) => one.of === second?.name) ?? deformations[(second?.visit ?? 2) - 2] ?? deformations[0]
  }

  get first(): Picture {
    return this.picture(this.store.state.first)
  }

  get second(): Picture | null {
    const { second } = this.store.state
    return second === null ? null : this.picture(second)
  }

  /** Why the difference is left out, in the frame's order; 0 where it is shown. */
  hidden(): Int16Array | null {
    return this.linked.compared && this.store.state.masked ? this.arranged.hidden(this.linked.compared) : null
  }

  /** Why nothing is said of a change, in the frame's order; 0 where something is. */
  silent(): Int16Array | null {
    return this.arranged.silent()
  }

  /** Whether the difference can be left out anywhere. */
  get canHide(): boolean {
    return this.panels.length > 1 && (this.data.change !== null || this.hasGaps)
  }

  /** How many slices are combined, in words. */
  slabWords(): string {
    const { slab, slabKind } = this.store.state
    if (slab === Infinity) return slabKind === 'maximum' ? 'MIP through the breast' : 'mean of all slices'
    const n = slicesIn(this.frame, slab)
    return n === 1 ? 'one slice' : `${slabKind} of ${n} slices, ${Number((n * this.frame.spacing[2]).toPrecision(3))} mm`
  }

  /** What a panel shows, with the breast where that is known. */
  titleOf(panel: Panel): string {
    return this.linesOf(panel).filter(Boolean).join(', ')
  }

  /** Its title, and the breast or nothing. */
  linesOf(panel: Panel): [string, string] {
    if (panel.role === 'difference') return [`${this.first.title.replace(' (reference)', '')} \u2212 ${this.linked.compared?.title}`, this.first.breast]
    const { title, breast } = (panel.role === 'prior' ? this.second : null) ?? this.first
    return [title, breast]
  }

  picture(name: string): Picture {
    const found = this.data.pictures.find((one) => one.name === name)
    if (!found) throw new Error(`The page has no volume ${name}.`)
    return found
  }

  private update(): void {
    // What is asked for before there are canvases is drawn once they are there.
    if (!this.attached) return
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
    const middle = this.frame.toPicture(state.point)
    const alone = shownAlone(state)
    this.element.classList.toggle('swapped', state.swapped && alone === null)
    this.element.classList.toggle('one', alone !== null)
    this.element.classList.toggle('stacked', this.isWide())
    this.panels.forEach((panel, i) => {
      panel.element.classList.toggle('front', alone === i)
      panel.chosen = (panel.role === 'prior' ? state.second : state.first) ?? ''
      panel.name = this.titleOf(panel)
      const frame = this.linked.frameOf(panel)
      const at = frame.toPicture(this.linked.pointOf(panel))
      const own = this.linked.ownOf(panel) !== null
      // What is enlarged about the crosshair stays about it in a frame of its own.
      const moved: [number, number] = own && state.zoom > 1 && isPlace(at) ? [state.middle[0] + at[0] - middle[0], state.middle[1] + at[1] - middle[1]] : own ? [0, 0] : state.middle
      panel.draw(isPlace(at) ? at : [0, 0, 0], state.zoom, moved)
      drawLayers(this, panel, at)
      const [x, y] = panel.view.toCanvas(at[0], at[1])
      panel.element.dataset.crosshair = `${x.toFixed(1)} ${y.toFixed(1)}`
      panel.element.dataset.slice = isPlace(at) ? String(frame.sliceOf(frame.toMachine(at))) : ''
      panel.readout = readout(this, panel, at)
    })
  }

  /** Whether the pictures are larger below each other than side by side. */
  private isWide(): boolean {
    const { clientWidth, clientHeight } = this.element
    const [width, height] = this.frame.size
    const n = this.panels.length
    const captions = CAPTIONS + (this.element.classList.contains('sure') ? LINES : 0)
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
      first.choose('First picture', options.filter(([name]) => !this.picture(name).own), this.start.first, (name) => this.store.set({ first: name }))
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
    if (order !== beforeOrder) this.arranged = new Arranged(this.data, this.frame, state)
    const { slope } = this.data
    const [low, high, spread] = [state.low / slope, state.high / slope, state.spread / slope]
    const ranges = [[low, high], [low, high], [-spread, spread]]
    if (content === beforeContent) {
      this.panels.forEach((panel, i) => panel.window(ranges[i][0], ranges[i][1]))
      return
    }
    const { arranged, first, second } = this
    const { compared } = this.linked
    await this.panels[0].show(arranged.picture(first), arranged.frame, low, high)
    if (second === null) return
    if (second.own) {
      const frame = this.linked.frameOf(this.panels[1])
      if (this.arrangedOwn?.frame !== frame || order !== beforeOrder) this.arrangedOwn = new Arranged({ ...this.data, inside: second.inside, change: null }, frame, state)
      await this.panels[1].show(this.arrangedOwn.picture(second), frame, low, high)
    } else await this.panels[1].show(arranged.picture(second), arranged.frame, low, high)
    await this.panels[2].show(arranged.difference(first, compared ?? second, state.masked), arranged.frame, -spread, spread)
  }
}
