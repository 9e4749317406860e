// The licences of all that went into the bundle, at its head, as they ask for.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const PACKAGE = /^.*node_modules\/((?:@[^/]+\/)?[^/]+)/

export function licenses() {
  return {
    name: 'licenses',
    generateBundle(_options, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== 'chunk') continue
        const folders = new Set(Object.keys(chunk.modules).map((id) => PACKAGE.exec(id.replaceAll('\0', '').replaceAll('\\', '/'))?.[0]))
        folders.delete(undefined)
        const texts = [...folders].sort().map(describe)
        chunk.code = `/*!\nThis viewer contains:\n\n${texts.join('\n\n')}\n*/\n${chunk.code}`
      }
    }
  }
}

function describe(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))
  const own = new URL(`licenses/${name.replace('/', '-')}.txt`, import.meta.url)
  const text = file ? readFileSync(join(folder, file), 'utf8') : existsSync(own) ? readFileSync(own, 'utf8') : ''
  if (!text && license !== 'CC0-1.0') console.warn(`licenses: ${name} has no licence file; write ${own.pathname}`)
  return `${name} ${version} (${license ?? 'licence below'})\n${text.trim().replaceAll('*/', '* /')}`
}
