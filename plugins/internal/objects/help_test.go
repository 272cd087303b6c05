package objects

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

type fields = map[string]any

func of(apiVersion, kind string, more fields) *unstructured.Unstructured {
	o := fields{"apiVersion": apiVersion, "kind": kind}
	for k, v := range more {
		o[k] = v
	}
	return &unstructured.Unstructured{Object: o}
}
