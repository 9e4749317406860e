// The keyboard: one table that both acts and explains itself.

import { slabs, toggleProjection } from './controls'
import { VIEWS, type ViewName } from './frame'
import { landmark, regionAtCrosshair, removeLast, rulerAtCrosshair } from './measure_tools'
import { changeWindow, zoomAbout } from './pointer'
import { savePicture } from './save'
import type { Viewer } from './viewer'

interface Key {
  keys: string[]
  shown: string
  words: string
  act: () => void
}

const MOUSE: [string, string][] = [
  ['wheel', 'go through the slices'],
  ['left drag', 'move the crosshair, in all pictures; or what is chosen beside Left drag'],
  ['right drag', 'window (sideways) and level (up and down)'],
  ['Shift + drag', 'move the picture'],
  ['Ctrl + wheel', 'zoom'],
  ['double click', 'one picture large, and back'],
  ['finger', 'tap: point; up and down: slices; sideways: next picture, where there is one; two: zoom']
]

/** Arrows with Shift: their signs, and one voxel to the right and upwards. */
const STEPS: [Arrow, string, number, number][] = [
  ['ArrowLeft', 'Shift \u2190', -1, 0],
  ['ArrowRight', 'Shift \u2192', 1, 0],
  ['ArrowUp', 'Shift \u2191', 0, 1],
  ['ArrowDown', 'Shift \u2193', 0, -1]
]
const WAYS = { ArrowLeft: 'to the left', ArrowRight: 'to the right', ArrowUp: 'up', ArrowDown: 'down' }
type Arrow = keyof typeof WAYS

/** What a slider, or text that scrolls, answers itself. */
const SLIDING = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'PageUp', 'PageDown', 'Home', 'End']

export function keyTable(viewer: Viewer, onHelp: () => void, onText: () => void): Key[] {
  const { store } = viewer
  const next = <T>(list: T[], now: T): T => list[(list.indexOf(now) + 1) % list.length]
  const compared = viewer.panels.length > 1
  const keys: Key[] = [
    { keys: ['ArrowDown', 'PageDown'], shown: '\u2193', words: 'next slice', act: () => viewer.scroll(1) },
    { keys: ['ArrowUp', 'PageUp'], shown: '\u2191', words: 'previous slice', act: () => viewer.scroll(-1) },
    { keys: ['Home'], shown: 'Home', words: 'first slice', act: () => viewer.toSlice(0) },
    { keys: ['End'], shown: 'End', words: 'last slice', act: () => viewer.toSlice(Infinity) },
    { keys: ['s'], shown: 's', words: 'thicker slab, then one slice again', act: () => store.set({ slab: next(slabs(viewer), store.state.slab) }) },
    { keys: ['p'], shown: 'p', words: 'maximum through the breast (MIP)', act: () => toggleProjection(viewer) },
    { keys: ['m'], shown: 'm', words: 'slab: mean or maximum', act: () => store.set({ slabKind: store.state.slabKind === 'mean' ? 'maximum' : 'mean' }) },
    { keys: ['v'], shown: 'v', words: 'next view: from above, the chest wall, the side', act: () => store.set({ view: next(Object.keys(VIEWS) as ViewName[], store.state.view), zoom: 1, middle: [0, 0] }) },
    { keys: ['t'], shown: 't', words: 'turn the view from above by 90\u00b0', act: () => store.set({ view: 'above', turn: (store.state.turn + 1) % 4, zoom: 1, middle: [0, 0] }) },
    { keys: ['ArrowRight'], shown: '\u2192', words: 'wider window', act: () => changeWindow(viewer, null, 15, 0) },
    { keys: ['ArrowLeft'], shown: '\u2190', words: 'narrower window', act: () => changeWindow(viewer, null, -15, 0) },
    { keys: [']'], shown: ']', words: 'higher level (darker)', act: () => changeWindow(viewer, null, 0, 8) },
    { keys: ['['], shown: '[', words: 'lower level (brighter)', act: () => changeWindow(viewer, null, 0, -8) },
    { keys: ['+', '='], shown: '+', words: 'zoom in on the crosshair', act: () => zoomAbout(viewer, here(viewer), 1.25) },
    { keys: ['-'], shown: '\u2212', words: 'zoom out', act: () => zoomAbout(viewer, here(viewer), 0.8) },
    ...STEPS.map(([arrow, shown, right, up]) => ({
      keys: [`Shift+${arrow}`], shown, words: `crosshair one voxel ${WAYS[arrow]}`, act: () => nudge(viewer, right, up)
    })),
    { keys: ['d'], shown: 'd', words: 'ruler: its one end at the crosshair, then its other', act: () => rulerAtCrosshair(viewer) },
    { keys: ['a'], shown: 'a', words: 'region of 10 mm about the crosshair', act: () => regionAtCrosshair(viewer) },
    { keys: ['Delete', 'Backspace'], shown: 'Del', words: 'remove what was measured last', act: () => removeLast(viewer) },
    { keys: ['e'], shown: 'e', words: 'save the pictures as PNG', act: () => savePicture(viewer) },
    { keys: ['r'], shown: 'r', words: 'reset all but the crosshair\u2019s place and what was measured', act: () => viewer.reset() },
    { keys: ['c'], shown: 'c', words: 'crosshair', act: () => store.set({ crosshair: !store.state.crosshair }) }
  ]
  if (viewer.data.deformations.length > 0) {
    keys.push(
      { keys: ['g'], shown: 'g', words: 'deformation grid', act: () => store.set({ grid: !store.state.grid }) },
      { keys: ['j'], shown: 'j', words: 'volume change (Jacobian)', act: () => store.set({ jacobian: !store.state.jacobian }) }
    )
  }
  if (viewer.data.deformations.some((one) => one.uncertainty)) {
    keys.push({ keys: ['u'], shown: 'u', words: 'uncertainty of the motion', act: () => store.set({ uncertainty: !store.state.uncertainty }) })
  }
  const { change } = viewer.data
  if (change && change.findings.length > 0) {
    keys.push(
      { keys: ['n'], shown: 'n', words: 'next finding', act: () => viewer.stepFinding(1) },
      { keys: ['N'], shown: 'N', words: 'previous finding', act: () => viewer.stepFinding(-1) },
      { keys: ['f'], shown: 'f', words: 'circles about the findings', act: () => store.set({ circles: !store.state.circles }) }
    )
  }
  if (change?.compared) {
    keys.push({ keys: ['z'], shown: 'z', words: 'map of scores z', act: () => store.set({ scores: !store.state.scores }) })
  }
  if (viewer.canHide) {
    keys.push({ keys: ['h'], shown: 'h', words: 'hatch the difference where nothing is said, or no data are', act: () => store.set({ masked: !store.state.masked }) })
  }
  if (compared) {
    keys.push(
      { keys: ['l'], shown: 'l', words: 'landmark at the crosshair, in the first picture', act: () => landmark(viewer, 'first', store.state.point) },
      { keys: ['L'], shown: 'L', words: 'its counterpart at the crosshair, in the second', act: () => landmark(viewer, 'second', viewer.linked.pointOf(viewer.panels[1])) },
      { keys: ['b'], shown: 'b', words: 'blink: the other visit in the same place', act: () => viewer.blink() },
      ...(viewer.linked.canShow ? [{ keys: ['o'], shown: 'o', words: 'the other visit in its own frame, with the crosshair where the same tissue lies', act: () => viewer.linked.toggle() }] : []),
      { keys: ['B'], shown: 'B', words: 'blink by itself, twice a second', act: () => store.set({ blinking: !store.state.blinking }) },
      { keys: ['0', 'Escape'], shown: '0', words: 'side by side', act: () => store.set({ alone: null }) }
    )
    viewer.panels.forEach((panel, i) => {
      keys.push({ keys: [String(i + 1)], shown: String(i + 1), words: `${panel.label} only`, act: () => store.set({ alone: i }) })
    })
  }
  keys.push(
    { keys: ['i'], shown: 'i', words: 'show or hide the text', act: onText },
    { keys: ['?'], shown: '?', words: 'this list', act: onHelp }
  )
  return keys
}

export function listenToKeys(table: Key[], help: HTMLDialogElement): void {
  document.addEventListener('keydown', (event) => {
    const { target } = event
    // Behind the list of keys nothing acts.
    if (help.open) {
      if (event.key !== 'Escape' && event.key !== '?') return
      event.preventDefault()
      help.close()
      return
    }
    const slides = target instanceof HTMLInputElement && target.type === 'range'
    const typing = slides ? SLIDING.includes(event.key) : target instanceof HTMLInputElement || target instanceof HTMLSelectElement
    const scrolls = target instanceof Element && target.closest('#text') !== null && SLIDING.includes(event.key)
    if (typing || scrolls || event.ctrlKey || event.metaKey || event.altKey) return
    const name = event.shiftKey && event.key.startsWith('Arrow') ? `Shift+${event.key}` : event.key
    const found = table.find(({ keys }) => keys.includes(name))
    if (!found) return
    event.preventDefault()
    found.act()
  })
}

export function helpDialog(table: Key[]): HTMLDialogElement {
  const dialog = document.createElement('dialog')
  dialog.className = 'help'
  const heading = document.createElement('h2')
  heading.id = 'help-title'
  heading.textContent = 'Keys and mouse'
  dialog.setAttribute('aria-labelledby', heading.id)
  const list = document.createElement('dl')
  for (const [shown, words] of [...table.map((key): [string, string] => [key.shown, key.words]), ...MOUSE]) {
    const row = document.createElement('div')
    const term = document.createElement('dt')
    const cap = document.createElement('kbd')
    cap.textContent = shown
    term.append(cap)
    const meaning = document.createElement('dd')
    meaning.textContent = words
    row.append(term, meaning)
    list.append(row)
  }
  const close = document.createElement('button')
  close.type = 'button'
  close.textContent = 'Close'
  close.addEventListener('click', () => dialog.close())
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close()
  })
  dialog.append(heading, list, close)
  return dialog
}

/** Move the crosshair in its slice by so many voxels. */
function nudge(viewer: Viewer, right: number, up: number): void {
  const { active } = viewer.linked
  const frame = viewer.linked.frameOf(active)
  const [x, y, eye] = frame.toPicture(viewer.linked.pointOf(active))
  const [dx, dy] = frame.spacing
  viewer.linked.pointIn(active, frame.inside(frame.toMachine([x + right * dx, y + up * dy, eye])))
}

function here(viewer: Viewer): [number, number] {
  const [right, up] = viewer.frame.toPicture(viewer.store.state.point)
  return [right, up]
}
