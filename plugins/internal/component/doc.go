// Package component reads documents of the component model (OCM): keys of resources, places of components, manifests,
// descriptors, accesses and artifact sets. It sends no requests: its caller fetches the documents and bounds their
// size.
//
// A component version is read in these steps, each with its own function:
//
//   - PlacesOf and Places.For return the registries to ask, Place.Repository and TagOf the repository and the tag
//     there.
//   - ParseManifest reads the manifest of the tag. An index has Manifest.Main, the manifest to go on with.
//   - Manifest.ComponentConfig is a blob; DescriptorBlob reads it and returns the blob of the descriptor.
//   - DescriptorFrom unpacks this blob, and Parse reads the descriptor.
//   - Descriptor.Resource finds a resource, ParseAccess the place of its content, and Digest.Expected its digests.
//
// Errors are of the kind fetch.Invalid unless a function names another one.
//
// Documents come from untrusted users and servers. Errors quote only the texts to be corrected, and only the
// beginning of each.
package component
