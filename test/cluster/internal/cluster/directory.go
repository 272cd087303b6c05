package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// marker is the file that says that a directory, with all that is in it, is a
// cluster's and may be removed. It keeps --dir=/var from being a disaster. It
// holds the cluster's name, which has to hold out when the directory is moved
// or reached by a symbolic link.
const marker = "PERGOLA-TEST-CLUSTER"

// validName guards what is killed and removed by the cluster's name.
var validName = regexp.MustCompile(`^pergola-[0-9a-f]{8}$`)

// errNoCluster is the error for a directory that is not a cluster's, or whose
// cluster is not up.
var errNoCluster = errors.New("no cluster is up there")

// claim makes the directory the cluster's, which it can be if it is empty or
// the cluster's already, and reads the cluster's name.
func (c *Cluster) claim() error {
	err := c.identify()
	if !errors.Is(err, errNoCluster) {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("read the cluster's directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s holds files that are not a cluster's: choose a new or an empty directory", c.dir)
	}
	unique := make([]byte, 4)
	if _, err := rand.Read(unique); err != nil {
		return fmt.Errorf("choose the cluster's name: %w", err)
	}
	c.name = fmt.Sprintf("pergola-%x", unique)
	return c.write(marker, []byte(c.name+"\n"))
}

// identify reads the cluster's name. It returns errNoCluster if the directory
// is not a cluster's.
func (c *Cluster) identify() error {
	content, err := os.ReadFile(c.path(marker))
	if errors.Is(err, fs.ErrNotExist) {
		return errNoCluster
	}
	if err != nil {
		return fmt.Errorf("read the cluster's name: %w", err)
	}
	name := strings.TrimSpace(string(content))
	if !validName.MatchString(name) {
		return fmt.Errorf("read the cluster's name: %s does not hold one", c.path(marker))
	}
	c.name = name
	return nil
}

// empty removes what is in the directory, the marker and the logs apart.
func (c *Cluster) empty() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("read the cluster's directory: %w", err)
	}
	kept := []string{marker, filepath.Base(c.table.Logs)}
	for _, entry := range entries {
		if slices.Contains(kept, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(c.path(entry.Name())); err != nil {
			return fmt.Errorf("remove the cluster's data: %w", err)
		}
	}
	return nil
}

// remove removes the directory.
func (c *Cluster) remove() error {
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove the cluster's data: %w", err)
	}
	return nil
}

// write writes a file of the cluster's directory, for its owner's eyes only.
func (c *Cluster) write(name string, content []byte) error {
	path := c.path(filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
