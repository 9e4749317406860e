// All that a reader can change. Panels and controls are drawn from it, so they cannot disagree.

import type { Vec3 } from './data'
import type { ViewName } from './frame'
import type { Mark } from './measure'
import type { SlabKind } from './slab'

/** What the left mouse button, or a finger, does. */
export type Tool = 'point' | 'window' | 'move' | 'ruler' | 'region' | 'landmark'

export interface State {
  /** Names of the pictures in the first and the second panel. */
  first: string
  second: string | null
  /** Where the crosshair is, in the machine frame, mm. */
  point: Vec3
  /** Where the crosshair is in the frame of the second picture, if that has its own and the reader pointed there. */
  ownPoint: Vec3 | null
  view: ViewName
  turn: number
  /** Thickness, mm; 0 is one slice, and Infinity the whole depth. */
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
  /** Whether the difference is left out where nothing is said, or a visit has no data. */
  masked: boolean
  swapped: boolean
  blinking: boolean
  /** The panel that is shown alone, or null for all side by side. */
  alone: number | null
  /** Whether there is room for one picture only, as on a phone. */
  narrow: boolean
  tool: Tool
  /** Rulers, regions and pairs of landmarks, in the order they were made. */
  marks: Mark[]
}

export type Change = Partial<State>

/** The panel that is shown by itself, if one is. */
export function shownAlone({ alone, narrow }: State): number | null {
  return alone ?? (narrow ? 0 : null)
}

export class Store {
  private readonly listeners: ((state: State, before: State) => void)[] = []

  constructor(private current: State) {}

  get state(): State {
    return this.current
  }

  set(change: Change): void {
    const before = this.current
    // A reader who points elsewhere, or looks at another picture, no longer points in that one.
    const left = change.point !== undefined || change.second !== undefined ? { ownPoint: null } : {}
    this.current = { ...before, ...left, ...change }
    for (const listener of this.listeners) listener(this.current, before)
  }

  onChange(listener: (state: State, before: State) => void): void {
    this.listeners.push(listener)
  }
}
