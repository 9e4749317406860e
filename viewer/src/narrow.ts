// Little room, as on a phone: one picture at a time, tabs and a swipe between them, tools behind a button.

import { shownAlone } from './state'
import type { Viewer } from './viewer'

/** As in the style sheet. */
const NARROW = '(max-width: 800px), (max-height: 500px)'

export function isNarrow(): boolean {
  return window.matchMedia(NARROW).matches
}

export function watchWidth({ store }: Viewer): void {
  const media = window.matchMedia(NARROW)
  const refresh = (): void => {
    if (media.matches !== store.state.narrow) store.set({ narrow: media.matches, alone: null })
  }
  media.addEventListener('change', refresh)
  refresh()
}

/** The next picture, or the one before; after the last comes the first. */
export function stepPicture({ store, panels }: Viewer, by: 1 | -1): void {
  const now = shownAlone(store.state)
  if (now === null || panels.length < 2) return
  store.set({ alone: (now + by + panels.length) % panels.length })
}

/** A button for each picture, of which the one shown is pressed. */
export function tabs(viewer: Viewer): HTMLElement {
  const { store, panels } = viewer
  const group = document.createElement('div')
  group.className = 'tabs'
  group.setAttribute('role', 'group')
  group.setAttribute('aria-label', 'Picture')
  const buttons = panels.map((_, i) => {
    const button = document.createElement('button')
    button.type = 'button'
    button.addEventListener('click', () => store.set({ alone: i }))
    return button
  })
  group.append(...buttons)
  const refresh = (): void => {
    const now = shownAlone(store.state)
    buttons.forEach((button, i) => {
      const picture = i === 0 ? viewer.first : viewer.second
      button.textContent = panels[i].role === 'difference' ? 'Difference' : `Visit ${picture?.visit}`
      button.setAttribute('aria-pressed', String(now === i))
    })
  }
  store.onChange(refresh)
  refresh()
  return group
}
