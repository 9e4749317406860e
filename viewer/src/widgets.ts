// Controls that show the state and change nothing but the state.

import { leave } from './focus'
import type { State, Store } from './state'

type Get<T> = (state: State) => T

export class Widgets {
  private readonly refreshers: ((state: State) => void)[] = []

  constructor(private readonly store: Store) {}

  refresh(): void {
    for (const refresher of this.refreshers) refresher(this.store.state)
  }

  /** Call a function with every state. */
  follow(refresher: (state: State) => void): void {
    this.refreshers.push(refresher)
  }

  group(parent: HTMLElement, name: string, label: string): HTMLElement {
    const group = document.createElement('div')
    group.className = `group ${name}`
    group.setAttribute('role', 'group')
    group.setAttribute('aria-label', label)
    parent.append(group)
    return group
  }

  label(parent: HTMLElement, text: string, control: HTMLElement, hidden = false): void {
    const label = document.createElement('label')
    const words = document.createElement('span')
    words.textContent = text
    if (hidden) words.className = 'hidden'
    label.append(words, control)
    parent.append(label)
  }

  choice(parent: HTMLElement, text: string, options: [string, string][], get: Get<string>, set: (value: string) => void, hidden = false): void {
    const select = document.createElement('select')
    select.name = text
    for (const [value, label] of options) select.append(new Option(label, value))
    select.addEventListener('change', () => {
      set(select.value)
      leave(select)
    })
    this.follow((state) => (select.value = get(state)))
    this.label(parent, text, select, hidden)
  }

  /** A number; set returns whether it can be taken. */
  number(parent: HTMLElement, text: string, step: number, get: Get<number>, set: (value: number) => boolean): void {
    const input = document.createElement('input')
    input.type = 'number'
    input.name = text
    input.step = String(step)
    input.addEventListener('change', () => {
      const value = input.valueAsNumber
      if (!Number.isFinite(value) || !set(value)) this.refresh()
    })
    this.follow((state) => {
      if (document.activeElement !== input) input.value = String(Number(get(state).toPrecision(3)))
    })
    this.label(parent, text, input)
  }

  button(parent: HTMLElement, text: string, key: string, act: () => void): HTMLButtonElement {
    const button = document.createElement('button')
    button.type = 'button'
    button.name = text
    const cap = document.createElement('kbd')
    cap.textContent = key
    button.append(text, ' ', cap)
    button.addEventListener('click', () => {
      act()
      leave(button)
    })
    parent.append(button)
    return button
  }

  toggle(parent: HTMLElement, text: string, key: string, get: Get<boolean>, act: () => void): void {
    const button = this.button(parent, text, key, act)
    this.follow((state) => button.setAttribute('aria-pressed', String(get(state))))
  }

  slider(parent: HTMLElement, text: string, set: (value: number) => void, show: (slider: HTMLInputElement, state: State) => void): void {
    const slider = document.createElement('input')
    slider.type = 'range'
    slider.name = text
    slider.addEventListener('input', () => set(slider.valueAsNumber))
    slider.addEventListener('change', () => leave(slider))
    this.follow((state) => show(slider, state))
    this.label(parent, text, slider)
  }
}
