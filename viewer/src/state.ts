// All that a reader can change. Panels and controls are drawn from it, so they cannot disagree.

import type { Vec3 } from './data'
import type { ViewName } from './frame'
import type { SlabKind } from './slab'

export type Drag = 'point' | 'window' | 'move'

export interface State {
  /** Names of the pictures in the first and the second panel. */
  first: string
  second: string | null
  /** Where the crosshair is, in the machine frame, mm. */
  point: Vec3
  view: ViewName
  turn: number
  slab: number
  slabKind: SlabKind
  low: number
  high: number
  /** The difference is shown from -spread to +spread. */
  spread: number
  zoom: number
  /** What is in the middle of the picture: mm to the right and upwards. */
  middle: [number, number]
  crosshair: boolean
  grid: boolean
  jacobian: boolean
  uncertainty: boolean
  opacity: number
  /** The map of scores, and the |z| from which on findings are listed. */
  scores: boolean
  threshold: number
  /** Circles about the findings, and the number of the one chosen. */
  circles: boolean
  finding: number | null
  /** Whether the difference is left out where nothing is said. */
  masked: boolean
  swapped: boolean
  blinking: boolean
  /** The panel that is shown alone, or null for all side by side. */
  alone: number | null
  /** What the left mouse button does. */
  drag: Drag
}

export type Change = Partial<State>

export class Store {
  private readonly listeners: ((state: State, before: State) => void)[] = []

  constructor(private current: State) {}

  get state(): State {
    return this.current
  }

  set(change: Change): void {
    const before = this.current
    this.current = { ...before, ...change }
    for (const listener of this.listeners) listener(this.current, before)
  }

  onChange(listener: (state: State, before: State) => void): void {
    this.listeners.push(listener)
  }
}
