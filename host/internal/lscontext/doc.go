// Package lscontext resolves the references of a Landscaper Context: credentials for registries and chart repositories,
// and the configuration of the component model.
//
// # Credentials
//
// Each of registryPullSecrets names a Secret of the Context's namespace with Docker's configuration, as a Pod's
// imagePullSecrets do: .dockerconfigjson, or .dockercfg of old. The plugin receives only auths, reduced to the login
// fields; credential helpers are programs, and run nowhere.
//
// The configuration helmChartRepoCredentials is as in Landscaper:
//
//	configurations:
//	  helmChartRepoCredentials:
//	    auths:
//	    - url: https://charts.example.org   # of the repository; http or https, without user
//	      customCAData: …                   # certificates in PEM, in base64; without it, the authorities of the system
//	      authHeader: Basic …               # of the header Authorization; either this
//	      secretRef: {name: …, key: …}      # or a key of a Secret of the Context's namespace; key defaults to authHeader
//
// Unknown fields are passed over. A plugin gets only the certificates of customCAData. At most fifty entries of either
// kind are read, and eight MiB altogether are handed over. A header has at most sixteen KiB.
//
// A plugin may name more Secrets with Docker's configuration, of the namespace of its item and of no other: the right
// to write a deploy item in one namespace must not give access to Secrets of another.
//
// Missing or wrong entries are no error: a deletion must not fail over them, and a public chart needs no credentials.
// The problem takes the place of the credentials, and the plugin shows it to the user when it needs them. A problem
// seen in a cache alone is confirmed first. An API server that cannot answer is an error, and worth another try.
//
// # The configuration of the component model
//
// The Context's ocmConfig names a ConfigMap of its namespace with a list of component repositories in its key
// .ocmconfig. A plugin gets the content of that key as it is, at most 256 KiB. A problem takes its place, as with
// credentials, because most items need no components.
//
// # Secrets and errors
//
// A text names objects, fields, keys of Secrets and registries. It never holds any other value, and no address of a
// chart repository with a password in it.
package lscontext
