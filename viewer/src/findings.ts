// The list of findings in the page's text: it leads to their places, and follows the threshold.

import { expectedAt, listed } from './change'
import type { PageChange } from './data'
import { isNarrow } from './narrow'
import type { State } from './state'
import type { Viewer } from './viewer'

export function attachFindings(viewer: Viewer, text: ParentNode): void {
  const { change } = viewer.data
  if (!change) return
  const items = [...text.querySelectorAll<HTMLElement>('.findings > li')]
  for (const item of items) {
    item.addEventListener('click', (event) => {
      if (event.target instanceof Element && event.target.closest('details')) return
      viewer.toFinding(Number(item.dataset.number))
      if (isNarrow()) viewer.element.scrollIntoView()
    })
  }
  const place = text.querySelector<HTMLElement>('.threshold')
  const refreshSlider = place && slider(viewer, change, place, items.length)
  const refresh = (state: State): void => {
    const left = new Set(listed(change, state.threshold).map(({ number }) => number))
    for (const item of items) {
      const number = Number(item.dataset.number)
      item.hidden = !left.has(number)
      item.querySelector('button')?.setAttribute('aria-current', String(state.finding === number))
    }
    refreshSlider?.(state, left.size)
  }
  viewer.store.onChange(refresh)
  refresh(viewer.store.state)
}

function slider(viewer: Viewer, change: PageChange, place: HTMLElement, n: number): (state: State, left: number) => void {
  const { store } = viewer
  const { thresholds, threshold, findings } = change
  const input = document.createElement('input')
  input.type = 'range'
  input.name = 'Threshold'
  input.step = '0.1'
  const ends = [threshold, thresholds[0] ?? threshold, thresholds[thresholds.length - 1] ?? threshold, ...findings.map(({ z }) => Math.abs(z))]
  input.min = String(Math.floor(10 * Math.min(...ends)) / 10)
  input.max = String(Math.ceil(10 * Math.max(...ends)) / 10)
  input.addEventListener('input', () => store.set({ threshold: input.valueAsNumber }))
  const label = document.createElement('label')
  const from = document.createElement('span')
  label.append(from, input)
  const map = document.createElement('button')
  map.type = 'button'
  const cap = document.createElement('kbd')
  cap.textContent = 'z'
  map.append('Score map ', cap)
  map.addEventListener('click', () => store.set({ scores: !store.state.scores }))
  const expected = document.createElement('output')
  const count = document.createElement('output')
  place.append(label, map, expected, count)
  return (state, left) => {
    const value = state.threshold.toFixed(1)
    input.value = value
    from.textContent = `Threshold |z| \u2265 ${value}`
    map.setAttribute('aria-pressed', String(state.scores))
    const number = told(change, state.threshold)
    input.setAttribute('aria-valuetext', `${value}, false findings to expect per breast: ${number}`)
    expected.textContent = `False findings to expect per breast at this threshold: ${number}`
    count.textContent = counted(change, state.threshold, left, n)
  }
}

function told(change: PageChange, threshold: number): string {
  const value = expectedAt(change, threshold)
  if (value === null) return 'not known'
  const { thresholds } = change
  const beyond = threshold > thresholds[thresholds.length - 1] ? 'at most ' : threshold < thresholds[0] ? 'at least ' : ''
  return beyond + few(value)
}

/** A small number with two digits. */
function few(value: number): string {
  if (value < 0.001) return 'below 0.001'
  return value >= 10 ? value.toFixed(0) : String(Number(value.toPrecision(2)))
}

function counted(change: PageChange, threshold: number, left: number, n: number): string {
  if (threshold < change.threshold - 0.05) return `Findings are listed from |z| = ${change.threshold.toFixed(1)} on; below it, only the map follows.`
  if (n === 0) return ''
  if (left === 0) return `No change found above |z| = ${threshold.toFixed(1)}.`
  return `${left} of ${n} findings`
}
