# Shows an item that runs an image in a Pod.

outcome() {
	show 'pergola items wait container'
	show 'pergola items list'
	exports
}

chapter 'A container: it runs to its end, and counts its runs in the state that it keeps'
show 'kubectl create -f examples'
outcome

chapter 'An update: another import value, so another run'
patch container '{"op":"replace","path":"/spec/config/importValues/greeting","value":"good evening"}'
outcome

chapter 'A deletion'
show 'kubectl delete deployitems --all'
