package deployer

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/cluster"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/plugins/container/internal/verdict"
	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// reasonInput is given to the error about something that cannot be given to the container.
const reasonInput = "InputInvalid"

// descriptorList is how the container gets component descriptors.
type descriptorList struct {
	Metadata struct {
		Version string `json:"schemaVersion"`
	} `json:"meta"`
	Components []json.RawMessage `json:"components"`
}

// input returns the files that the init container puts into the shared directory, by their paths in it.
func (j *job) input(ctx context.Context, c *config.Config) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(at string, content []byte) { files[strings.TrimPrefix(at, layout.Shared+"/")] = content }
	if len(c.ImportValues) > 0 {
		add(layout.Imports, c.ImportValues)
	}
	if j.request.Target != nil {
		target, err := targetFile(j.request.DeployItem.Namespace, j.request.Target)
		if err != nil {
			return nil, err
		}
		add(layout.Target, target)
	}
	resolved, err := j.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	for name, content := range resolved.Files {
		add(path.Join(layout.Content, name), content)
	}
	if len(resolved.ComponentDescriptors) > 0 {
		list := descriptorList{Components: resolved.ComponentDescriptors}
		list.Metadata.Version = "v2"
		document, err := json.Marshal(list)
		if err != nil {
			return nil, sdk.ConfigurationError(reasonInput, "spec.config: componentDescriptor: %w", err)
		}
		add(layout.ComponentDescriptor, document)
	}
	return files, nil
}

// resolve returns files and component descriptors, those of the provider configuration or those that a resolver finds.
func (j *job) resolve(ctx context.Context, c *config.Config) (*content.Resolved, error) {
	out := &content.Resolved{Files: c.Files}
	descriptor := c.ComponentDescriptor
	if descriptor != nil && descriptor.Reference == nil {
		out.ComponentDescriptors = []json.RawMessage{descriptor.Inline}
	}
	blueprintAway := c.Blueprint != nil && c.Blueprint.Reference != nil
	descriptorAway := descriptor != nil && descriptor.Reference != nil
	if !blueprintAway && !descriptorAway {
		return out, nil
	}
	req := &content.ResolveRequest{
		ComponentDescriptor: descriptor, DeployItem: j.request.DeployItem, Context: j.request.Context,
		Credentials: j.request.Credentials, Log: j.request.Log,
	}
	if blueprintAway {
		req.Blueprint = c.Blueprint.Reference
	}
	found, err := j.options.Resolver.Resolve(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("resolve references of spec.config: %w", err)
	}
	if blueprintAway {
		if err := checkNames(found.Files); err != nil {
			return nil, err
		}
		out.Files = found.Files
	}
	if descriptorAway {
		out.ComponentDescriptors = found.ComponentDescriptors
	}
	return out, nil
}

// checkNames refuses files that would be put beside those of the blueprint, in the place of others: their names may come from a repository.
func checkNames(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(name) || name == "." {
			return sdk.ConfigurationError(reasonInput, "spec.config: blueprint.ref: the resolver has found a file %.200q, which is no path below the blueprint,"+
				" such as %q; correct the blueprint, or the resolver", name, "charts/shop.tgz")
		}
	}
	return nil
}

// targetFile is a Target with its content, in the form of Landscaper's type ResolvedTarget.
func targetFile(namespace string, t *sdk.Target) ([]byte, error) {
	file := struct {
		Target  landscaper.Target `json:"target"`
		Content string            `json:"content"`
	}{Content: string(t.Content)}
	file.Target.APIVersion, file.Target.Kind = landscaper.GroupVersion.String(), "Target"
	file.Target.Namespace, file.Target.Name, file.Target.Labels, file.Target.Annotations = namespace, t.Name, t.Labels, t.Annotations
	file.Target.Spec.Type = t.Type
	document, err := json.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("write Target %q for the container: %w", t.Name, err)
	}
	return document, nil
}

// secrecy hides in what the container says what it was given: what the deploy item says now, and, once it has said something, what it said
// when the Pod was created, which is in the run's input.
func (j *job) secrecy(ctx context.Context, c *config.Config, at *cluster.Cluster, pod *corev1.Pod) (*redact.Redactor, error) {
	var known given
	known.addDocument(string(c.ImportValues), 0)
	if t := j.request.Target; t != nil {
		known.addText(string(t.Content), 0)
	}
	if verdict.Said(pod) != "" {
		chunks, err := at.Input(ctx, run.OfRun(j.identity.UID, j.status.Run.Name))
		if err != nil {
			return nil, j.explain(j.status.Run.Place, stepRun, err)
		}
		files, err := archive.Files(archive.Join(chunks))
		if err != nil && len(chunks) > 0 {
			return nil, fmt.Errorf("read what the container was given: %w", err)
		}
		for _, file := range files {
			known.addText(string(file), 0)
		}
	}
	hidden, err := known.hide()
	if err != nil {
		return nil, err
	}
	hidden.Publish(j.identity.Namespace, j.identity.Name, c.Image)
	return hidden, nil
}

// maxTexts bounds how many texts a text is in that is looked into. It is two for a kubeconfig in the file with the Target.
const maxTexts = 5

// given is what a container was given: texts, and the values in them if they are JSON or YAML, each once. The names of their fields are kept
// apart, since they are told although they are values, too.
type given struct {
	values []any
	names  map[string]any
}

// hide returns what hides all that was added.
func (g *given) hide() (*redact.Redactor, error) {
	document, err := json.Marshal([]any{g.names, g.values})
	if err != nil {
		return nil, fmt.Errorf("collect what is not to be told: %w", err)
	}
	return redact.New(document), nil
}

// addText adds a text, and what stands in it. depth is how many texts it is in itself.
func (g *given) addText(text string, depth int) {
	g.values = append(g.values, text)
	if depth <= maxTexts {
		g.addDocument(text, depth)
	}
}

// addDocument adds what stands in a text, and nothing if it is neither JSON nor YAML. Aliases are not replaced: what they stand for is added
// where it stands, so that nothing grows.
func (g *given) addDocument(text string, depth int) {
	if json.Valid([]byte(text)) { // of which some is no YAML for the library
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if decoder.Decode(&value) == nil {
			g.addValue(value, depth)
		}
		return
	}
	if document, err := boundedyaml.Parse([]byte(text)); err == nil {
		g.addNode(document, depth)
	}
}

// addValue adds a value of JSON, and what stands in it if it is a text: a kubeconfig in the content of a Target is a text in a document.
func (g *given) addValue(value any, depth int) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			g.addName(name)
			g.addValue(v, depth)
		}
	case []any:
		for _, v := range value {
			g.addValue(v, depth)
		}
	case string:
		if start := strings.TrimSpace(value); strings.Contains(value, "\n") || strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
			g.addText(value, depth+1)
			return
		}
		g.values = append(g.values, value)
	case json.Number:
		g.values = append(g.values, value)
	}
}

func (g *given) addName(name string) {
	if g.names == nil {
		g.names = map[string]any{}
	}
	g.names[name] = nil
}

// addNode is addValue for YAML.
func (g *given) addNode(node *yaml.Node, depth int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i, child := range node.Content {
			if isName := i%2 == 0 && child.Kind == yaml.ScalarNode; isName {
				g.addName(child.Value)
			} else {
				g.addNode(child, depth)
			}
		}
	case yaml.ScalarNode:
		g.addScalar(node, depth)
	default:
		for _, child := range node.Content {
			g.addNode(child, depth)
		}
	}
}

// addScalar adds a text, or a number both as it is written and as it is meant.
func (g *given) addScalar(node *yaml.Node, depth int) {
	var value any
	if node.Decode(&value) != nil {
		value = node.Value
	}
	switch value := value.(type) {
	case nil, bool:
	case string:
		g.addValue(value, depth)
	case int, int64, uint64, float64:
		meant, _ := json.Marshal(value) //nolint:errchkjson // what is infinite has no digits
		for _, number := range [][]byte{[]byte(node.Value), meant} {
			if json.Valid(number) {
				g.values = append(g.values, json.RawMessage(number))
			}
		}
	default: // a time
		g.addValue(node.Value, depth)
	}
}
