// Package trace is the file in which test plugins record what they are called for, in the order in which it happens.
// Several processes may write to one file.
package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Record is one call of a hook function, or of a deployer's method.
type Record struct {
	// By is who was called, such as the name of the plugin.
	By string `json:"by"`
	// Step is the type of the hook, or the method of the deployer.
	Step string `json:"step"`
	// Item is namespace/name of the deploy item; empty for none.
	Item string `json:"item,omitempty"`
	// Target is what a hook was given of the Target; nil for none.
	Target *v1alpha1.Target `json:"target,omitempty"`
}

// File is the path of a trace. The empty one keeps nothing.
type File string

// Add appends the record of a step for an item and with a Target, each of which may be nil.
func (f File) Add(by, step string, item *v1alpha1.DeployItem, target *v1alpha1.Target) error {
	r := Record{By: by, Step: step, Target: target}
	if item != nil {
		r.Item = item.Namespace + "/" + item.Name
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return f.AddLine(string(line))
}

// AddLine appends a line.
func (f File) AddLine(line string) error {
	if f == "" {
		return nil
	}
	file, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	_, err = fmt.Fprintln(file, line)
	return errors.Join(err, file.Close())
}

// Read returns all records so far, in their order; none if nobody has written yet. A record that is being written is
// left out.
func (f File) Read() (records []Record, err error) {
	content, err := os.ReadFile(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	for lines := json.NewDecoder(bytes.NewReader(content)); ; {
		r := Record{}
		err := lines.Decode(&r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read trace: %w", err)
		}
		records = append(records, r)
	}
}

// Hook returns a hook function that records its calls in the name of a plugin and has no opinion.
func (f File) Hook(by string) hook.Func {
	return func(
		_ context.Context, item *v1alpha1.DeployItem, target *v1alpha1.Target, hookType hook.Type,
	) (*hook.Result, error) {
		return nil, f.Add(by, string(hookType), item, target)
	}
}
