class Broker {}
