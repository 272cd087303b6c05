// Package lockfile reads and writes plugins.lock, in which an operator says which plugin files are meant to be run: each by its name
// in the plugin directory, its SHA-256, and what it says of itself.
//
// Whatever the lock file does not say is refused: a file without an entry, an entry without a checksum, a lock file without the signature
// that the configured public keys ask for. Text that was verified is the text that is read.
package lockfile
