package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// stateFile has the state of an item between two runs, in place of its status.
type stateFile struct {
	// path of the file; "" for none.
	path string

	// JobID of the running job; "" for none.
	JobID string `json:"jobID,omitempty"`
	// ProviderStatus is the last saved provider status.
	ProviderStatus json.RawMessage `json:"providerStatus,omitempty"`
}

// readState reads a state file. A missing file is an empty state.
func readState(path string) (*stateFile, error) {
	s := &stateFile{path: path}
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state in %s: %w", path, err)
	}
	return s, nil
}

// applyTo sets the status and the deletion of an item as in a cluster.
func (s *stateFile) applyTo(item *v1alpha1.DeployItem, op plugin.Operation) {
	item.Status.JobID = s.JobID
	if len(s.ProviderStatus) > 0 {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: s.ProviderStatus}
	}
	if op == plugin.Delete && item.DeletionTimestamp == nil {
		now := metav1.Now()
		item.DeletionTimestamp = &now
	}
}

// write replaces the file.
func (s *stateFile) write() error {
	if s.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		// The plugin relies on its provider status: an interrupted write must leave the old file.
		err = os.WriteFile(s.path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return nil
}

// remove removes the state of a deleted item.
func (s *stateFile) remove() error {
	if err := os.Remove(s.path); s.path != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the state of the deleted item: %w", err)
	}
	return nil
}

// maxProviderStatus is about the limit of an API server for an object.
const maxProviderStatus = 1 << 20

// save saves a provider status.
func (s *stateFile) save(document []byte) error {
	if len(document) > maxProviderStatus {
		return fmt.Errorf("a provider status has at most %d bytes, but this one has %d", maxProviderStatus, len(document))
	}
	if !json.Valid(document) {
		return errors.New("the provider status is not valid JSON")
	}
	s.ProviderStatus = document
	return s.write()
}
