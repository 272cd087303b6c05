package lockfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// read reads a file of bounded size, unless trust says that its content is worth nothing. It never waits, whatever the path leads to.
func read(path string, trust func(path string, info fs.FileInfo) error) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if err := trust(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxBytes)
	}
	return text, nil
}

// anybody may have written a file that a signature protects, or that is one.
func anybody(string, fs.FileInfo) error { return nil }

// onlyUs says why others than root and the user of this process may write a file.
func onlyUs(path string, info fs.FileInfo) error {
	const othersWrite = 0o022
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the system does not say whose it is")
	}
	if mode := info.Mode().Perm(); mode&othersWrite != 0 {
		return fmt.Errorf("%s %w, its group or everybody (mode %04o), who could allow any plugin; chmod 0644 %[1]s, or sign it and give the host publicKeys",
			path, ErrExposed, uint32(mode))
	}
	if self := os.Geteuid(); stat.Uid != 0 && int(stat.Uid) != self {
		return fmt.Errorf("%s %w, for it belongs to the user %d, who could allow any plugin; "+
			"chown it to root, or to the user %d that the host runs as: chown 0 %[1]s, or sign it and give the host publicKeys",
			path, ErrExposed, stat.Uid, self)
	}
	return nil
}
