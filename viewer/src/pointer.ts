// The mouse over a picture: point, scroll, window, move, zoom, measure. Fingers: see touch.ts.

import type { Vec3 } from './data'
import { begin, end, follow, landmark } from './measure_tools'
import type { Panel } from './panel'
import type { Tool } from './state'
import { listenToTouch } from './touch'
import type { Viewer } from './viewer'

export function listen(viewer: Viewer, panel: Panel): void {
  const { store } = viewer
  const { over, view } = panel
  let act: Tool | null = null
  let last: [number, number] = [0, 0]
  let from: Vec3 = [0, 0, 0]
  let turned = 0

  const fingers = listenToTouch(viewer, panel)

  over.addEventListener('pointerdown', (event) => {
    event.preventDefault()
    over.focus({ preventScroll: true })
    over.setPointerCapture(event.pointerId)
    last = onCanvas(over, placeOf(event))
    from = machineAt(viewer, panel, last)
    act = event.button === 2 ? 'window' : event.button === 1 || event.shiftKey ? 'move' : store.state.tool
    // What one finger does with the crosshair, and two with the picture, is not dragging.
    if (event.pointerType === 'touch' && (act === 'point' || fingers.size > 1)) act = null
    // In a frame of its own nothing is measured: numbers are of the reference's.
    if (viewer.linked.ownOf(panel) && (act === 'ruler' || act === 'region')) act = 'point'
    if (act === 'point') viewer.linked.pointIn(panel, from)
    if (act === 'ruler' || act === 'region') begin(viewer, act, from)
    if (act === 'landmark' && panel.role !== 'difference') {
      landmark(viewer, panel.role === 'prior' ? 'second' : 'first', from)
      viewer.linked.pointIn(panel, from)
    }
  })
  over.addEventListener('pointermove', (event) => {
    if (act === null) return
    const at = onCanvas(over, placeOf(event))
    const [dx, dy] = [(at[0] - last[0]) / devicePixelRatio, (at[1] - last[1]) / devicePixelRatio]
    if (act === 'point') viewer.linked.pointIn(panel, machineAt(viewer, panel, at))
    else if (act === 'move') moveBy(viewer, panel, at[0] - last[0], at[1] - last[1])
    else if (act === 'window') changeWindow(viewer, panel, dx, dy)
    else follow(viewer, from, machineAt(viewer, panel, at))
    last = at
  })
  for (const name of ['pointerup', 'pointercancel'] as const) {
    over.addEventListener(name, () => {
      if (act === 'ruler' || act === 'region') end(viewer)
      act = null
    })
  }
  over.addEventListener('contextmenu', (event) => event.preventDefault())
  over.addEventListener('dblclick', () => {
    if (store.state.tool !== 'point' || store.state.narrow) return
    store.set({ alone: store.state.alone === null ? viewer.panels.indexOf(panel) : null })
  })
  over.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault()
      if (event.ctrlKey) {
        zoomAbout(viewer, view.toPicture(...onCanvas(over, placeOf(event))), event.deltaY < 0 ? 1.15 : 1 / 1.15)
        return
      }
      // A wheel turns by 100 and more at a time, a trackpad by little; slices come one by one.
      turned += Math.abs(event.deltaY) >= 50 ? Math.sign(event.deltaY) : event.deltaY / 50
      const slices = Math.trunc(turned)
      turned -= slices
      if (slices !== 0) viewer.scroll(slices, panel)
    },
    { passive: false }
  )
}

/** A place of the screen on the canvas. */
export function onCanvas(over: HTMLCanvasElement, [x, y]: [number, number]): [number, number] {
  const box = over.getBoundingClientRect()
  return [((x - box.left) * over.width) / box.width, ((y - box.top) * over.height) / box.height]
}

function placeOf({ clientX, clientY }: MouseEvent): [number, number] {
  return [clientX, clientY]
}

/** The point of the slice that is shown at a place of the canvas. */
export function machineAt(viewer: Viewer, panel: Panel, at: [number, number]): Vec3 {
  const frame = viewer.linked.frameOf(panel)
  const [, , depth] = frame.toPicture(viewer.linked.pointOf(panel))
  const eye = Number.isFinite(depth) ? depth : 0
  return frame.inside(frame.toMachine([...panel.view.toPicture(...at), eye]))
}

/** By so many pixels of the canvas. */
export function moveBy({ store }: Viewer, { view }: Panel, dx: number, dy: number): void {
  const { middle } = store.state
  store.set({ middle: [middle[0] - dx / view.pixelsPerMm, middle[1] + dy / view.pixelsPerMm] })
}

/** To the right widens the window, downwards raises its level and so darkens the picture. */
export function changeWindow(viewer: Viewer, panel: Panel | null, dx: number, dy: number): void {
  const { store, data } = viewer
  const { low, high, spread } = store.state
  if (panel?.role === 'difference') {
    store.set({ spread: Math.max(data.slope, spread * Math.exp(dx / 150)) })
    return
  }
  const width = Math.max(4 * data.slope, (high - low) * Math.exp(dx / 150))
  const level = (high + low) / 2 + (dy * (data.window[1] - data.window[0])) / 300
  store.set({ low: level - width / 2, high: level + width / 2 })
}

/** Zoom, and leave what is at a place of the picture where it is. */
export function zoomAbout(viewer: Viewer, about: [number, number], factor: number): void {
  const { zoom, middle } = viewer.store.state
  const next = Math.min(20, Math.max(1, zoom * factor))
  const share = zoom / next
  const moved: [number, number] = [about[0] + (middle[0] - about[0]) * share, about[1] + (middle[1] - about[1]) * share]
  viewer.store.set({ zoom: next, middle: next === 1 ? [0, 0] : moved })
}
