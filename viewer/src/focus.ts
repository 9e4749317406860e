// Who moves the focus: after a click keys belong to the pictures again; those who go by Tab keep their place.

let byPointer = false

export function watchFocus(): void {
  document.addEventListener('pointerdown', () => (byPointer = true), true)
  document.addEventListener('keydown', () => (byPointer = false), true)
}

/** Give the focus back, if a click or a touch took it. */
export function leave(control: HTMLElement): void {
  if (byPointer) control.blur()
}
