package archive

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
)

// Names of files that matter here.
const (
	metadataFile     = "Chart.yaml"
	requirementsFile = "requirements.yaml"
	schemaFile       = "values.schema.json"
)

// special are the files that Helm reads when it loads a chart: a schema, and YAML.
var special = []string{metadataFile, "Chart.lock", "values.yaml", schemaFile, requirementsFile, "requirements.lock"}

// check looks through the files of a chart as Helm's loader does, and returns what the chart is called.
func (b *budget) check(files []File, depth int) (string, error) {
	byName := make(map[string][]byte, len(files))
	for _, file := range files {
		byName[file.Name] = file.Data
	}
	if err := checkSpelling(byName); err != nil {
		return "", err
	}
	for _, file := range files {
		if err := b.checkContents(file); err != nil {
			return "", at(file.Name, err)
		}
	}
	about, err := readMetadata(byName)
	if err != nil {
		return "", err
	}
	vendored, err := b.checkSubcharts(files, depth)
	if err != nil {
		return "", err
	}
	if depth == 0 { // Helm asks for those of sub-charts neither
		if err := about.checkDependencies(vendored); err != nil {
			return "", err
		}
	}
	return about.Name, nil
}

// checkSpelling refuses files that would be others on a file system that does not tell case apart.
func checkSpelling(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, right := range special {
			if name == right || !strings.EqualFold(name, right) {
				continue
			}
			if _, both := files[right]; both || right == metadataFile {
				return at(name, invalid("is spelt almost like %s; remove it, or give it that name", right))
			}
		}
	}
	if _, ok := files[metadataFile]; !ok {
		return invalid("has no file %s in its folder", metadataFile)
	}
	return nil
}

func (b *budget) checkContents(file File) error {
	switch {
	case file.Name == schemaFile:
		return checkSchema(file.Data)
	case slices.Contains(special, file.Name), isDefinition(file.Name):
		return b.checkYAML(file.Data)
	default:
		return nil
	}
}

// isDefinition tells whether Helm installs what is in the file before anything else.
func isDefinition(name string) bool {
	if !strings.HasPrefix(name, "crds/") {
		return false
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// checkSubcharts looks through the charts in charts/ and returns what they are called. What Helm passes over is passed over.
func (b *budget) checkSubcharts(files []File, depth int) ([]string, error) {
	groups := map[string][]File{}
	for _, file := range files {
		name, ok := strings.CutPrefix(file.Name, "charts/")
		if !ok || path.Ext(name) == ".prov" {
			continue // Helm takes a signature for a file of this chart, wherever in charts/ it is
		}
		first, _, _ := strings.Cut(name, "/")
		if strings.HasPrefix(first, "_") || strings.HasPrefix(first, ".") {
			continue
		}
		groups[first] = append(groups[first], File{Name: name, Data: file.Data})
	}
	var names []string
	for _, first := range slices.Sorted(maps.Keys(groups)) {
		name, err := b.checkSubchart(first, groups[first], depth+1)
		if err != nil {
			return nil, at("charts/"+first, err)
		}
		names = append(names, name)
	}
	return names, nil
}

func (b *budget) checkSubchart(first string, group []File, depth int) (string, error) {
	if depth > b.limits.Depth {
		return "", exceeded("is a sub-chart at depth %d; %d is allowed", depth, b.limits.Depth)
	}
	if path.Ext(first) == ".tgz" {
		if len(group) != 1 || group[0].Name != first {
			return "", invalid("is the folder of a sub-chart; one that ends with .tgz is taken for an archive")
		}
		files, err := b.unpack(bytes.NewReader(group[0].Data))
		if err != nil {
			return "", err
		}
		return b.check(files, depth)
	}
	files := make([]File, 0, len(group))
	for _, file := range group {
		if _, name, ok := strings.Cut(file.Name, "/"); ok {
			files = append(files, File{Name: name, Data: file.Data})
		}
	}
	if len(files) == 0 {
		return "", invalid("is neither the folder of a chart nor an archive; Helm wants nothing else in charts/")
	}
	return b.check(files, depth)
}
