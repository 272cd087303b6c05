// Command chartgen writes the generated parts of the chart: the list of its values in README.md, from values.yaml and
// its comments, and the CustomResourceDefinitions. It is run in the root of the repository; see `make generate`.
package main

import (
	"errors"
	"fmt"
	"os"
	"path"

	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/crds"
)

// The chart, and paths in it.
const (
	chart       = "charts/pergola"
	definitions = "files/crds"
	values      = "values.yaml"
	readme      = "README.md"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes everything, and nothing outside of the chart.
func write() error {
	root, err := os.OpenRoot(chart)
	if err != nil {
		return fmt.Errorf("open the chart: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing is lost with it
	return errors.Join(writeDefinitions(root), writeReadme(root))
}

// writeDefinitions writes a file for each CustomResourceDefinition, and leaves no other there.
func writeDefinitions(root *os.Root) error {
	manifests, err := crds.Manifests()
	if err != nil {
		return err
	}
	if err := errors.Join(root.RemoveAll(definitions), root.Mkdir(definitions, 0o755)); err != nil {
		return fmt.Errorf("empty %s: %w", definitions, err)
	}
	for _, manifest := range manifests {
		var definition struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal(manifest, &definition); err != nil {
			return fmt.Errorf("read a CustomResourceDefinition: %w", err)
		}
		file := path.Join(definitions, definition.Metadata.Name+".yaml")
		if err := root.WriteFile(file, manifest, 0o644); err != nil {
			return fmt.Errorf("write a CustomResourceDefinition: %w", err)
		}
	}
	return nil
}

// writeReadme replaces the list of values in the file.
func writeReadme(root *os.Root) error {
	text, err := root.ReadFile(values)
	if err != nil {
		return fmt.Errorf("read the values: %w", err)
	}
	list, err := document(text)
	if err != nil {
		return err
	}
	before, err := root.ReadFile(readme)
	if err != nil {
		return fmt.Errorf("read the README: %w", err)
	}
	after, err := insert(string(before), list)
	if err != nil {
		return fmt.Errorf("%s: %w", readme, err)
	}
	if err := root.WriteFile(readme, []byte(after), 0o644); err != nil {
		return fmt.Errorf("write the README: %w", err)
	}
	return nil
}
