package validate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// item is a DeployItem of a file.
type item struct {
	*v1alpha1.DeployItem

	file string
	// shown is the name of the item for users, with its namespace if the file has one.
	shown string
}

func newItem(read *v1alpha1.DeployItem, file string) item {
	i := item{DeployItem: read, file: file, shown: read.Name}
	if read.Name == "" && read.GenerateName != "" {
		i.shown, read.Name = read.GenerateName+"*", read.GenerateName+"00000"
	}
	if read.Namespace != "" {
		i.shown = read.Namespace + "/" + i.shown
	}
	local.Complete(read, corev1.NamespaceDefault)
	return i
}

// readItems reads the DeployItems of files, and reports problems of the files and of the items' own fields.
func readItems(paths []string, recursive bool, stdin io.Reader) ([]item, *report, error) {
	if len(paths) == 0 {
		return nil, nil, errors.New("name a file with DeployItems with -f")
	}
	files, err := filesOf(paths, recursive)
	if err != nil {
		return nil, nil, err
	}
	found := newReport()
	var items []item
	for _, file := range files {
		read := func() ([]byte, error) { return os.ReadFile(file) }
		if file == "-" {
			file, read = "standard input", func() ([]byte, error) { return io.ReadAll(stdin) }
		}
		content, err := read()
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", file, err)
		}
		objects, err := objectsOf(content)
		if err != nil {
			found.problem(file, "", sdk.Problem{Message: "expected YAML or JSON: " + err.Error()})
		}
		for _, object := range objects {
			read, problems := readItem(object)
			if read == nil {
				continue
			}
			i := newItem(read, file)
			for _, p := range problems {
				found.problem(file, i.shown, p)
			}
			items = append(items, i)
		}
	}
	if found.Items = len(items); len(items)+len(found.Problems) == 0 {
		return nil, nil, fmt.Errorf("there is no DeployItem in %s", strings.Join(paths, ", "))
	}
	return items, found, nil
}

// filesOf returns the files of paths. Directories have files with the extensions of kubectl.
func filesOf(paths []string, recursive bool) (files []string, err error) {
	for _, path := range paths {
		if path == "-" {
			files = append(files, path)
			continue
		}
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && file != path && !recursive:
				return filepath.SkipDir
			case !entry.IsDir() && (file == path || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file))):
				files = append(files, file)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("find the files of -f: %w", err)
		}
	}
	return files, nil
}

// objectsOf returns the objects of a file as JSON, also those of lists, up to the first error.
func objectsOf(content []byte) (objects []json.RawMessage, err error) {
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err == nil {
			document, err = yaml.YAMLToJSONStrict(document)
		}
		if err != nil {
			return objects, err
		}
		var list struct {
			Kind  string            `json:"kind"`
			Items []json.RawMessage `json:"items"`
		}
		if json.Unmarshal(document, &list) == nil && strings.HasSuffix(list.Kind, "List") {
			objects = append(objects, list.Items...)
		} else {
			objects = append(objects, document)
		}
	}
}

// readItem returns a DeployItem, and the problems of its own fields; nil for another object.
func readItem(object json.RawMessage) (*v1alpha1.DeployItem, []sdk.Problem) {
	expected := v1alpha1.DeployItemGVK
	var meta metav1.TypeMeta
	if json.Unmarshal(object, &meta) != nil || meta.Kind != expected.Kind ||
		meta.GroupVersionKind().Group != expected.Group {
		return nil, nil
	}
	item := &v1alpha1.DeployItem{}
	problems := sdk.DecodeStrictly(object, item)
	if version := expected.GroupVersion().String(); meta.APIVersion != version {
		problems = append(problems, sdk.Problem{
			Field: "apiVersion", Message: fmt.Sprintf("expected %s, but found %q", version, meta.APIVersion),
		})
	}
	if item.Name == "" && item.GenerateName == "" {
		problems = append(problems, sdk.Problem{Field: "metadata.name", Message: "it is missing"})
	}
	if item.Spec.Type == "" {
		problems = append(problems, sdk.Problem{Field: "spec.type", Message: "it is missing; it selects the plugin"})
	}
	return item, problems
}
