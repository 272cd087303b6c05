// Package testenv starts real things for tests and the demo: a kube-apiserver with etcd, built by test/cluster, and
// hosts as processes of their own with plugins as processes of their own.
package testenv
