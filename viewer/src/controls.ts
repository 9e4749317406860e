// The bar above the pictures; where there is little room, all but the slices are behind a button.

import { VIEWS, type ViewName } from './frame'
import { legend } from './legend'
import { tabs } from './narrow'
import { savePicture } from './save'
import type { SlabKind } from './slab'
import type { Tool } from './state'
import type { Viewer } from './viewer'
import { Widgets } from './widgets'

export const TOOLS: [Tool, string][] = [
  ['point', 'points'],
  ['window', 'windows'],
  ['move', 'moves'],
  ['ruler', 'ruler'],
  ['region', 'region'],
  ['landmark', 'landmarks']
]

/** What `s` goes through, mm. */
const SLABS = [0, 2, 5, 10, 20, 30, 50]

export class Controls {
  readonly element = document.createElement('div')
  private readonly widgets: Widgets

  constructor(
    private readonly viewer: Viewer,
    private readonly onHelp: () => void,
    private readonly onText: () => void
  ) {
    this.widgets = new Widgets(viewer.store)
    this.element.className = 'controls'
    this.element.setAttribute('role', 'group')
    this.element.setAttribute('aria-label', 'Tools')
    const always = document.createElement('div')
    always.className = 'always'
    const drawer = document.createElement('div')
    drawer.className = 'drawer'
    drawer.id = 'drawer'
    this.element.append(always, drawer)
    always.append(this.opener(drawer))
    if (viewer.panels.length > 1) always.append(tabs(viewer))
    this.slice(always)
    this.slices(drawer)
    if (viewer.panels.length > 1) this.compare(drawer)
    this.overlays(drawer)
    this.contrast(drawer)
    this.measure(drawer)
    this.end(drawer)
    if (viewer.data.deformations.length > 0 || viewer.data.change) this.element.append(legend(viewer, this.widgets))
    viewer.store.onChange(() => this.refresh())
    this.refresh()
  }

  refresh(): void {
    this.widgets.refresh()
  }

  /** Shows and hides the tools where there is little room. */
  private opener(drawer: HTMLElement): HTMLElement {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'opener'
    button.textContent = 'Tools'
    button.setAttribute('aria-controls', drawer.id)
    const show = (open: boolean): void => {
      button.setAttribute('aria-expanded', String(open))
      this.element.classList.toggle('open', open)
    }
    show(false)
    button.addEventListener('click', () => show(!this.element.classList.contains('open')))
    this.element.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !this.element.classList.contains('open')) return
      event.stopPropagation()
      show(false)
      button.focus()
    })
    this.viewer.element.addEventListener('pointerdown', () => show(false))
    return button
  }

  private slice(parent: HTMLElement): void {
    const { viewer } = this
    const group = this.widgets.group(parent, 'slice', 'Slice')
    const place = document.createElement('span')
    place.className = 'place'
    this.widgets.slider(group, 'Slice', (value) => viewer.toSlice(value - 1), (slider, state) => {
      const { frame } = viewer
      const slice = frame.sliceOf(state.point)
      const { axis, sign } = frame.axes[2]
      slider.min = '1'
      slider.max = String(frame.shape[2])
      slider.value = String(slice + 1)
      const mm = frame.onSlice(state.point, slice)[axis]
      place.textContent = `${slice + 1} / ${frame.shape[2]}, ${'xyz'[axis]} = ${mm.toFixed(1)} mm`
      slider.setAttribute('aria-valuetext', place.textContent)
      slider.title = sign > 0 ? 'Towards the reader' : 'Away from the reader'
    })
    group.append(place)
  }

  private slices(parent: HTMLElement): void {
    const { viewer, widgets } = this
    const { store } = viewer
    const group = widgets.group(parent, 'slices', 'View and slab')
    const views = Object.entries(VIEWS).map(([name, view]): [string, string] => [name, view.label])
    widgets.choice(group, 'View', views, (state) => state.view, (view) => store.set({ view: view as ViewName, zoom: 1, middle: [0, 0] }))
    widgets.button(group, 'Turn', 't', () => store.set({ turn: (store.state.turn + 1) % 4, view: 'above', zoom: 1, middle: [0, 0] }))
    widgets.number(group, 'Slab, mm', 1, (state) => (state.slab === Infinity ? viewer.frame.size[2] : state.slab), (mm) => {
      if (mm >= 0) store.set({ slab: mm })
      return mm >= 0
    })
    const kinds: [string, string][] = [['mean', 'mean'], ['maximum', 'maximum']]
    widgets.choice(group, 'Slab shows', kinds, (state) => state.slabKind, (kind) => store.set({ slabKind: kind as SlabKind }), true)
    widgets.toggle(group, 'MIP', 'p', (state) => state.slab === Infinity && state.slabKind === 'maximum', () => toggleProjection(viewer))
  }

  private compare(parent: HTMLElement): void {
    const { viewer, widgets } = this
    const { store } = viewer
    const group = widgets.group(parent, 'compare', 'Compare')
    widgets.button(group, 'Blink', 'b', () => viewer.blink())
    widgets.toggle(group, 'Auto', 'B', (state) => state.blinking, () => store.set({ blinking: !store.state.blinking }))
    if (viewer.linked.canShow) widgets.toggle(group, 'Own frame', 'o', () => viewer.second?.own ?? false, () => viewer.linked.toggle())
    const layouts: [string, string][] = [['all', 'side by side'], ...viewer.panels.map((panel, i): [string, string] => [String(i), `${panel.label} only`])]
    widgets.choice(group, 'Show', layouts, (state) => String(state.alone ?? 'all'), (value) => store.set({ alone: value === 'all' ? null : Number(value) }))
  }

  private overlays(parent: HTMLElement): void {
    const { viewer, widgets } = this
    const { store, data } = viewer
    const group = widgets.group(parent, 'overlays', 'Over the pictures')
    const toggle = (text: string, key: string, name: 'crosshair' | 'grid' | 'jacobian' | 'uncertainty' | 'circles' | 'scores' | 'masked'): void =>
      widgets.toggle(group, text, key, (state) => state[name], () => store.set({ [name]: !store.state[name] }))
    toggle('Crosshair', 'c', 'crosshair')
    if (data.deformations.length > 0) {
      toggle('Grid', 'g', 'grid')
      toggle('Volume change', 'j', 'jacobian')
      if (data.deformations.some((one) => one.uncertainty)) toggle('Uncertainty', 'u', 'uncertainty')
    }
    if (data.change && data.change.findings.length > 0) toggle('Findings', 'f', 'circles')
    if (data.change?.compared) toggle('Scores', 'z', 'scores')
    if (viewer.canHide) toggle('Hatch', 'h', 'masked')
    if (data.deformations.length === 0 && !data.change) return
    widgets.slider(group, 'Opacity', (opacity) => store.set({ opacity }), (slider, state) => {
      ;[slider.min, slider.max, slider.step] = ['0', '1', '0.05']
      slider.value = String(state.opacity)
    })
  }

  private contrast(parent: HTMLElement): void {
    const { viewer, widgets } = this
    const { store, data } = viewer
    const group = widgets.group(parent, 'contrast', 'Contrast')
    const step = 10 ** Math.floor(Math.log10((data.window[1] - data.window[0]) / 20))
    const window = (level: number, width: number): boolean => {
      if (width > 0) store.set({ low: level - width / 2, high: level + width / 2 })
      return width > 0
    }
    widgets.number(group, 'Window', step, (state) => state.high - state.low, (width) => window((store.state.high + store.state.low) / 2, width))
    widgets.number(group, 'Level', step, (state) => (state.high + state.low) / 2, (level) => window(level, store.state.high - store.state.low))
    if (viewer.panels.length > 1) {
      widgets.number(group, 'Difference \u00b1', step, (state) => state.spread, (spread) => {
        if (spread > 0) store.set({ spread })
        return spread > 0
      })
    }
  }

  private measure(parent: HTMLElement): void {
    const { viewer, widgets } = this
    const { store } = viewer
    const group = widgets.group(parent, 'measure', 'Left drag and pictures')
    const tools = viewer.panels.length > 1 ? TOOLS : TOOLS.filter(([tool]) => tool !== 'landmark')
    widgets.choice(group, 'Left drag', tools, (state) => state.tool, (tool) => store.set({ tool: tool as Tool }))
    widgets.button(group, 'Save', 'e', () => savePicture(viewer))
    widgets.button(group, 'Reset', 'r', () => viewer.reset())
  }

  private end(parent: HTMLElement): void {
    const group = this.widgets.group(parent, 'end', 'Page')
    this.widgets.button(group, 'Text', 'i', this.onText)
    this.widgets.button(group, 'Keys', '?', this.onHelp)
  }
}

/** Slabs that a key goes through: those between one slice and the whole depth. */
export function slabs({ frame }: Viewer): number[] {
  return SLABS.filter((mm) => mm === 0 || (mm > frame.spacing[2] && mm < frame.size[2]))
}

/** The maximum through the breast, or one slice again. */
export function toggleProjection({ store }: Viewer): void {
  const on = store.state.slab === Infinity && store.state.slabKind === 'maximum'
  store.set(on ? { slab: 0, slabKind: 'mean' } : { slab: Infinity, slabKind: 'maximum' })
}
