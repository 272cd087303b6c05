package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bomVersion is a version for all scanners: some lack newer ones.
const bomVersion = cdx.SpecVersion1_6

// addBOM adds the SBOM of the programs.
func (r *release) addBOM() error {
	var text bytes.Buffer
	encoder := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true)
	list := bom(r.options.version, r.options.date(), r.programs)
	if err := encoder.EncodeVersion(list, bomVersion); err != nil {
		return fmt.Errorf("write SBOM: %w", err)
	}
	return r.write("sbom.cdx.json", text.Bytes())
}

// bom lists the programs and the Go modules in each of them. The same programs give the same list.
func bom(version string, date time.Time, programs []program) *cdx.BOM {
	var components []cdx.Component
	var refs []string
	var dependencies []cdx.Dependency
	modules := map[string]cdx.Component{}
	for _, p := range programs {
		ref := strings.Join([]string{p.image, p.platform, p.path}, ":")
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: p.path, Version: version,
			Description: "Program of the image " + p.image + " for " + p.platform,
			Hashes:      &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.sum}},
		})
		stdlib := &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(p.info.GoVersion, "go")}
		var has []string
		for _, module := range append(slices.Clone(p.info.Deps), stdlib) {
			if module.Replace != nil {
				module = module.Replace
			}
			// A version may have a plus; it has another meaning in such an address.
			address := "pkg:golang/" + module.Path + "@" + url.QueryEscape(module.Version)
			has = append(has, address)
			modules[address] = cdx.Component{
				BOMRef: address, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: address,
			}
		}
		slices.Sort(has)
		refs = append(refs, ref)
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &has})
	}
	dependencies = append(dependencies, cdx.Dependency{Ref: "pergola", Dependencies: &refs})
	for _, address := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[address])
	}
	list := cdx.NewBOM()
	list.Metadata = &cdx.Metadata{
		Timestamp: date.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: "pergola", Type: cdx.ComponentTypeApplication, Name: "pergola", Version: version},
	}
	list.Components, list.Dependencies = &components, &dependencies
	return list
}
