package components

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

// repository is a repository of components in a document, in Landscaper's form.
type repository struct {
	descriptors map[id]*component.Descriptor
	// problem is the error of the first unreadable file of a descriptor; empty for none.
	problem string
	// blobs are files by their paths.
	blobs map[string][]byte
}

// id names a component version.
type id struct{ name, version string }

// readRepository reads a repository context; nil for another type, without a repository in the document.
func readRepository(ctx context.Context, document json.RawMessage) (*repository, error) {
	var found struct {
		Type           string          `json:"type"`
		FileSystem     json.RawMessage `json:"fileSystem"`
		DescriptorPath string          `json:"compDescDirPath"`
		BlobSystem     json.RawMessage `json:"blobFs"`
		BlobMode       string          `json:"blobFsMode"`
		BlobPath       string          `json:"blobDirPath"`
	}
	if err := json.Unmarshal(document, &found); err != nil || strings.TrimSuffix(found.Type, "/v1") != "inline" {
		return nil, nil //nolint:nilnil,nilerr // the reader of other types says what is wrong
	}
	const field = "spec.config: componentDescriptor.ref.repositoryContext"
	files, err := ReadFiles(found.FileSystem)
	if err != nil {
		return nil, invalidf("%s.fileSystem: %w", field, err)
	}
	r := &repository{descriptors: map[id]*component.Descriptor{}, blobs: below(files, found.BlobPath)}
	if err := r.readDescriptors(ctx, below(files, found.DescriptorPath)); err != nil {
		return nil, err
	}
	switch {
	case found.BlobMode != "":
		return nil, invalidf("%s.blobFsMode: %q would read files of the deployer; put the content into blobFs",
			field, found.BlobMode)
	case len(found.BlobSystem) > 0 && string(found.BlobSystem) != "null":
		if files, err = ReadFiles(found.BlobSystem); err != nil {
			return nil, invalidf("%s.blobFs: %w", field, err)
		}
		r.blobs = below(files, found.BlobPath)
	}
	return r, nil
}

// below returns the files of a directory by their paths in it.
func below(files map[string][]byte, directory string) map[string][]byte {
	directory = strings.Trim(path.Clean("/"+directory), "/")
	if directory == "" {
		return files
	}
	found := map[string][]byte{}
	for name, content := range files {
		if rest, ok := strings.CutPrefix(name, directory+"/"); ok {
			found[rest] = content
		}
	}
	return found
}

// readDescriptors reads the descriptors in files; other files may be among them.
func (r *repository) readDescriptors(ctx context.Context, files map[string][]byte) error {
	left := maxDescriptors
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// In JSON, aliases are replaced by their values.
		document, err := boundedyaml.ToJSON(files[name])
		if left -= len(document); left < 0 {
			return tooMuchf("the files in the repositoryContext in spec.config: componentDescriptor.ref have more than %d bytes",
				maxDescriptors)
		}
		var found *component.Descriptor
		if err == nil {
			found, err = component.Parse(document, "", "")
		}
		switch {
		case err == nil && r.descriptors[id{found.Name, found.Version}] == nil:
			r.descriptors[id{found.Name, found.Version}] = found
		case err != nil && r.problem == "":
			r.problem = fmt.Sprintf("%.200q: %v", name, err)
		}
	}
	return nil
}

// version returns a component version.
func (r *repository) version(name, version string) (*component.Version, error) {
	if found := r.descriptors[id{name, version}]; found != nil {
		return &component.Version{Descriptor: found}, nil
	}
	const missing = "component %s %s is not in the repositoryContext of the type inline in spec.config: " +
		"componentDescriptor.ref; "
	if r.problem != "" {
		return nil, invalidf(missing+"correct its file, if it is %s", name, version, r.problem)
	}
	return nil, invalidf(missing+"add a file with its descriptor, such as component-descriptor.yaml", name, version)
}

// localTypes are the types of access to content of the repository.
var localTypes = []string{"localBlob", "LocalBlob", "localFilesystemBlob"}

// blueprint returns the files of a resource: a directory or a tar in the repository.
func (r *repository) blueprint(resource component.Resource) (map[string][]byte, error) {
	var access struct {
		Type           string `json:"type"`
		LocalReference string `json:"localReference"`
		FileName       string `json:"fileName"`
	}
	if err := json.Unmarshal(resource.Access, &access); err != nil ||
		!slices.Contains(localTypes, strings.TrimSuffix(access.Type, "/v1")) {
		return nil, invalidf("its access is not of the type localBlob; content in a repositoryContext of the type inline " +
			"has no other")
	}
	name := access.LocalReference + access.FileName
	if content, ok := r.blobs[name]; ok {
		return unpack(bytes.NewReader(content))
	}
	files := below(r.blobs, name)
	if len(files) == 0 || strings.Trim(path.Clean("/"+name), "/") == "" {
		return nil, invalidf("its access has the localReference %.200q, but there is no such file or directory in the "+
			"repositoryContext", name)
	}
	return files, nil
}
