package components

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

// repository is a repository of components in a document, as Landscaper has it.
type repository struct {
	// descriptors are documents, some of which may be others, and blobs are files by their paths.
	descriptors, blobs map[string][]byte
}

// readRepository reads a repository context; nil for one of another type, which is no repository in a document.
func readRepository(document json.RawMessage) (*repository, error) {
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
	r := &repository{descriptors: below(files, found.DescriptorPath), blobs: below(files, found.BlobPath)}
	switch {
	case found.BlobMode != "":
		return nil, invalidf("%s.blobFsMode is %q, which reads files of the deployer; put the content into blobFs",
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

// version returns a component version; nil if it is not in the repository.
func (r *repository) version(name, version string) *component.Version {
	for _, document := range r.descriptors {
		found, err := component.Parse(document, "", "")
		if err == nil && found.Name == name && found.Version == version {
			return &component.Version{Descriptor: found}
		}
	}
	return nil
}

// localTypes are the types of access to content of the repository.
var localTypes = []string{"localBlob", "LocalBlob", "localFilesystemBlob"}

// blueprint returns the files of a resource that is a directory or a tar in the repository.
func (r *repository) blueprint(resource component.Resource) (map[string][]byte, error) {
	var access struct {
		Type           string `json:"type"`
		LocalReference string `json:"localReference"`
		FileName       string `json:"fileName"`
	}
	if err := json.Unmarshal(resource.Access, &access); err != nil ||
		!slices.Contains(localTypes, strings.TrimSuffix(access.Type, "/v1")) {
		return nil, invalidf("its access is not of the type localBlob, which content in a repositoryContext of the type " +
			"inline has")
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
