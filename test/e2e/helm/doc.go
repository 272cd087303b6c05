// Package helm has tests of the helm deployer from end to end: a host, the plugin and its workers are processes of their own, as they are
// where they are at work. They are apart from the tests of package e2e, which take their time without them.
package helm
