// Package component reads documents of the component model (OCM): keys of resources, places of components, manifests,
// descriptors, accesses and artifact sets. It sends no requests: its caller fetches them and bounds their size.
//
// A component version is read in these steps, each with its own function:
//
//   - PlacesOf and Places.For say which registries to ask, and Place.Repository and TagOf for what.
//   - ParseManifest reads what the tag leads to. An index has Manifest.Main, which is the manifest to go on with.
//   - Manifest.ComponentConfig is the blob that DescriptorBlob reads, and that says where the descriptor is.
//   - DescriptorFrom unpacks that blob, and Parse reads the descriptor.
//   - Descriptor.Resource finds a resource, ParseAccess says where its content is, and Digest.Expected what it must be.
//
// Errors are of the kind fetch.Invalid unless a function says otherwise.
//
// Documents come from people and servers that are not trusted. Errors quote of them what has to be corrected, and of
// that only the beginning.
package component
