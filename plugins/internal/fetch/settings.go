package fetch

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
)

// hosts are the names of registries: with a port or without, and neither a scheme nor a path.
var hosts = regexp.MustCompile(`^(\[[0-9a-f:.]+\]|[a-z0-9]([-a-z0-9._]*[a-z0-9])?)(:[0-9]{1,5})?$`)

// RegistryConfiguration has the settings for a registry in the configuration document of a plugin.
type RegistryConfiguration struct {
	// Host of the registry, with its port unless it is the usual one.
	Host string `json:"host"`
	// PlainHTTP speaks HTTP without TLS.
	PlainHTTP bool `json:"plainHTTP,omitempty"`
	// InsecureSkipTLSVerify trusts any certificate.
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`
	// CAData are certificates in PEM of the authorities for the registry's certificate, instead of those of the system.
	CAData string `json:"caData,omitempty"`
}

// ReadRegistries reads the registries of a configuration document, and adds the mistakes in them to the problems.
func ReadRegistries(p *settingsfile.Problems, field string, found []RegistryConfiguration) []Registry {
	var registries []Registry
	for i, c := range found {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !hosts.MatchString(c.Host):
			p.Add(at+".host", "expected a host in lower case, such as registry.example.org or registry.example.org:5000, but found %q", c.Host)
		case slices.ContainsFunc(found[:i], func(other RegistryConfiguration) bool { return other.Host == c.Host }):
			p.Add(at+".host", "%s is there twice", c.Host)
		}
		if c.PlainHTTP && c.InsecureSkipTLSVerify {
			p.Add(at+".insecureSkipTLSVerify", "has no meaning with plainHTTP: take one of them out")
		}
		if c.PlainHTTP && c.CAData != "" {
			p.Add(at+".caData", "has no meaning with plainHTTP: take one of them out")
		}
		if c.InsecureSkipTLSVerify && c.CAData != "" {
			p.Add(at+".caData", "has no meaning with insecureSkipTLSVerify: take one of them out")
		}
		if err := checkCertificates([]byte(c.CAData)); err != nil {
			p.Add(at+".caData", "expected certificates in PEM: %v", err)
		}
		registries = append(registries, Registry{
			Host: c.Host, PlainHTTP: c.PlainHTTP, InsecureSkipTLSVerify: c.InsecureSkipTLSVerify, CAData: []byte(c.CAData),
		})
	}
	return registries
}

// checkCertificates refuses anything but certificates. An empty text is fine.
func checkCertificates(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	for n := 1; ; n++ {
		var block *pem.Block
		block, text = pem.Decode(text)
		switch {
		case block == nil && n == 1:
			return errors.New("found none")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("found %q as number %d", block.Type, n)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("read number %d: %w", n, err)
		}
	}
}
