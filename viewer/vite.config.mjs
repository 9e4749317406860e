// One classic script and one style sheet with fixed names, which the report page carries inline.
import { defineConfig } from 'vite'
import { licenses } from './licenses.mjs'

export default defineConfig({
  plugins: [licenses()],
  build: {
    outDir: '../src/duotomo/report/viewer',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 8192,
    rollupOptions: {
      input: 'src/main.ts',
      output: {
        format: 'iife',
        inlineDynamicImports: true,
        entryFileNames: 'viewer.js',
        assetFileNames: 'viewer[extname]'
      }
    }
  }
})
