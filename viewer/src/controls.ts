// The bar above the pictures. Every control shows the state and changes nothing but the state.

import { GONE, HATCH_COLOUR, NEW } from './change'
import { VIEWS, type ViewName } from './frame'
import { GRID_COLOUR, LARGER, SMALLER, UNDETERMINED, UNSURE, deviationOf, gridSpacing, ratioOf } from './overlay'
import type { SlabKind } from './slab'
import type { Drag, State } from './state'
import type { Viewer } from './viewer'

const SLABS = [1, 2, 3, 5, 7, 10, 15, 20, 30]

export class Controls {
  readonly element = document.createElement('div')
  private readonly refreshers: ((state: State) => void)[] = []

  constructor(
    private readonly viewer: Viewer,
    onHelp: () => void,
    onText: () => void
  ) {
    this.element.className = 'controls'
    const { store, data } = viewer
    const compared = data.prior !== null

    const slices = this.group('slices')
    this.choice(slices, 'View', Object.entries(VIEWS).map(([name, view]) => [name, view.label]),
      (state) => state.view, (view) => store.set({ view: view as ViewName, zoom: 1, middle: [0, 0] }))
    this.slider(slices)
    this.choice(slices, 'Slab', slabs(viewer).map((n) => [String(n), n === 1 ? '1 slice' : `${n} (${thickness(viewer, n)} mm)`]),
      (state) => String(state.slab), (n) => store.set({ slab: Number(n) }))
    this.choice(slices, 'Slab shows', [['mean', 'mean'], ['maximum', 'maximum']],
      (state) => state.slabKind, (kind) => store.set({ slabKind: kind as SlabKind }), true)
    this.button(slices, 'Turn', 't', () => store.set({ turn: (store.state.turn + 1) % 4, view: 'above', zoom: 1, middle: [0, 0] }))

    if (compared) {
      const compare = this.group('compare')
      this.button(compare, 'Blink', 'b', () => viewer.blink())
      this.toggle(compare, 'Auto', 'B', (state) => state.blinking, () => store.set({ blinking: !store.state.blinking }))
      const layouts: [string, string][] = [['all', 'side by side'], ...viewer.panels.map((panel, i): [string, string] => [String(i), `${panel.label} only`])]
      this.choice(compare, 'Show', layouts, (state) => String(state.alone ?? 'all'),
        (value) => store.set({ alone: value === 'all' ? null : Number(value) }))
    }

    const over = this.group('overlays')
    this.toggle(over, 'Crosshair', 'c', (state) => state.crosshair, () => store.set({ crosshair: !store.state.crosshair }))
    if (data.deformations.length > 0) {
      this.toggle(over, 'Grid', 'g', (state) => state.grid, () => store.set({ grid: !store.state.grid }))
      this.toggle(over, 'Volume change', 'j', (state) => state.jacobian, () => store.set({ jacobian: !store.state.jacobian }))
      if (data.deformations.some((one) => one.uncertainty)) {
        this.toggle(over, 'Uncertainty', 'u', (state) => state.uncertainty, () => store.set({ uncertainty: !store.state.uncertainty }))
      }
    }
    if (data.change) {
      if (data.change.findings.length > 0) {
        this.toggle(over, 'Findings', 'f', (state) => state.circles, () => store.set({ circles: !store.state.circles }))
      }
      if (data.change.compared) this.toggle(over, 'Scores', 'z', (state) => state.scores, () => store.set({ scores: !store.state.scores }))
      if (compared) this.toggle(over, 'Hatch', 'h', (state) => state.masked, () => store.set({ masked: !store.state.masked }))
    }
    if (data.deformations.length > 0 || data.change) this.opacity(over)

    const contrast = this.group('contrast')
    this.number(contrast, 'Window', (state) => state.high - state.low, (width) => {
      const level = (store.state.high + store.state.low) / 2
      store.set({ low: level - width / 2, high: level + width / 2 })
    })
    this.number(contrast, 'Level', (state) => (state.high + state.low) / 2, (level) => {
      const width = store.state.high - store.state.low
      store.set({ low: level - width / 2, high: level + width / 2 })
    })
    if (compared) this.number(contrast, 'Difference \u00b1', (state) => state.spread, (spread) => store.set({ spread }))
    this.choice(contrast, 'Left drag', [['point', 'points'], ['window', 'windows'], ['move', 'moves']],
      (state) => state.drag, (drag) => store.set({ drag: drag as Drag }))
    this.button(contrast, 'Reset', 'r', () => viewer.reset())

    const end = this.group('end')
    this.button(end, 'Text', 'i', onText)
    this.button(end, 'Keys', '?', onHelp)
    if (data.deformations.length > 0 || data.change) this.legend(this.element)
    store.onChange(() => this.refresh())
    this.refresh()
  }

  refresh(): void {
    for (const refresher of this.refreshers) refresher(this.viewer.store.state)
  }

  private group(name: string): HTMLElement {
    const group = document.createElement('div')
    group.className = `group ${name}`
    this.element.append(group)
    return group
  }

  private label(parent: HTMLElement, text: string, control: HTMLElement, hidden = false): void {
    const label = document.createElement('label')
    const words = document.createElement('span')
    words.textContent = text
    if (hidden) words.className = 'hidden'
    label.append(words, control)
    parent.append(label)
  }

  private choice(
    parent: HTMLElement, text: string, options: [string, string][], get: (state: State) => string,
    set: (value: string) => void, hidden = false
  ): void {
    const select = document.createElement('select')
    select.name = text
    for (const [value, label] of options) select.append(new Option(label, value))
    select.addEventListener('change', () => {
      set(select.value)
      // Keys belong to the pictures again.
      select.blur()
    })
    this.refreshers.push((state) => (select.value = get(state)))
    this.label(parent, text, select, hidden)
  }

  private number(parent: HTMLElement, text: string, get: (state: State) => number, set: (value: number) => void): void {
    const input = document.createElement('input')
    input.type = 'number'
    input.name = text
    const [low, high] = this.viewer.data.window
    input.step = String(10 ** Math.floor(Math.log10((high - low) / 20)))
    input.addEventListener('change', () => {
      const value = input.valueAsNumber
      if (Number.isFinite(value) && (text === 'Level' || value > 0)) set(value)
      else this.refresh()
    })
    this.refreshers.push((state) => {
      if (document.activeElement !== input) input.value = String(Number(get(state).toPrecision(3)))
    })
    this.label(parent, text, input)
  }

  private button(parent: HTMLElement, text: string, key: string, act: () => void): HTMLButtonElement {
    const button = document.createElement('button')
    button.type = 'button'
    button.name = text
    const cap = document.createElement('kbd')
    cap.textContent = key
    button.append(text, ' ', cap)
    button.addEventListener('click', () => {
      act()
      button.blur()
    })
    parent.append(button)
    return button
  }

  private toggle(parent: HTMLElement, text: string, key: string, get: (state: State) => boolean, act: () => void): void {
    const button = this.button(parent, text, key, act)
    this.refreshers.push((state) => button.setAttribute('aria-pressed', String(get(state))))
  }

  private slider(parent: HTMLElement): void {
    const slider = document.createElement('input')
    slider.type = 'range'
    slider.name = 'Slice'
    slider.min = '1'
    const place = document.createElement('output')
    slider.addEventListener('input', () => this.viewer.toSlice(slider.valueAsNumber - 1))
    slider.addEventListener('change', () => slider.blur())
    this.refreshers.push((state) => {
      const { frame } = this.viewer
      const slice = frame.sliceOf(state.point)
      const { axis, sign } = frame.axes[2]
      slider.max = String(frame.shape[2])
      slider.value = String(slice + 1)
      const mm = frame.onSlice(state.point, slice)[axis]
      place.textContent = `${slice + 1} / ${frame.shape[2]}, ${'xyz'[axis]} = ${mm.toFixed(1)} mm`
      slider.title = sign > 0 ? 'Towards the reader' : 'Away from the reader'
    })
    this.label(parent, 'Slice', slider)
    parent.append(place)
  }

  private opacity(parent: HTMLElement): void {
    const slider = document.createElement('input')
    slider.type = 'range'
    slider.name = 'Opacity'
    slider.min = '0'
    slider.max = '1'
    slider.step = '0.05'
    slider.addEventListener('input', () => this.viewer.store.set({ opacity: slider.valueAsNumber }))
    slider.addEventListener('change', () => slider.blur())
    this.refreshers.push((state) => (slider.value = String(state.opacity)))
    this.label(parent, 'Opacity', slider)
  }

  private legend(parent: HTMLElement): void {
    const legend = document.createElement('p')
    legend.className = 'legend'
    this.refreshers.push((state) => {
      legend.replaceChildren()
      const { change } = this.viewer.data
      if (change && state.scores) {
        const from = state.threshold.toFixed(1)
        legend.append(swatch(`rgb(${NEW.join()})`), `new, line: z = ${from}`)
        legend.append(swatch(`rgb(${GONE.join()})`), `gone, dashes: z = \u2212${from}`)
      }
      if (change && (state.scores || state.masked)) legend.append(swatch(HATCH_COLOUR, 'hatched'), 'hatched: nothing is said')
      const deformation = this.viewer.deformation()
      if (!deformation) return
      if (state.grid) {
        const apart = gridSpacing(this.viewer.frame)
        legend.append(swatch(GRID_COLOUR), `lines that are straight in ${deformation.title}, ${apart} mm apart`)
      }
      if (state.jacobian) {
        const ratio = ratioOf(deformation)
        const [less, more] = [Math.round(100 * (1 - 1 / ratio)), Math.round(100 * (ratio - 1))]
        legend.append(swatch(`rgb(${SMALLER.join()})`), `tissue has ${less} % less volume than in ${deformation.title}`)
        legend.append(swatch(`rgb(${LARGER.join()})`), `${more} % more`)
      }
      if (state.uncertainty && deformation.uncertainty) {
        const most = deviationOf(deformation.uncertainty)
        legend.append(swatch(`rgb(${UNSURE.join()})`), `motion of ${deformation.title} off by ${most} mm or more (standard deviation), paler: by less`)
        legend.append(swatch(`rgb(${UNDETERMINED.join()})`), 'not determined')
      }
    })
    parent.append(legend)
  }
}

export function slabs(viewer: Viewer): number[] {
  return SLABS.filter((n) => n <= viewer.data.lattice.shape[2])
}

function thickness(viewer: Viewer, n: number): string {
  return String(Number((n * viewer.data.lattice.spacing[2]).toPrecision(3)))
}

function swatch(colour: string, kind = ''): HTMLElement {
  const box = document.createElement('i')
  box.className = kind
  if (kind) box.style.color = colour
  else box.style.backgroundColor = colour
  return box
}
