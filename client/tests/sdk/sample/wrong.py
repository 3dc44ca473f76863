"""Mistakes that a type checker finds; the numbers of their lines are expected."""

import headrace


def mistakes(client: headrace.Client) -> None:
    """Each line has one."""
    client.producer("shop", "orders", lingers=1)  # mistake
    client.producer("shop", "orders", linger="1")  # mistake
    client.consumer("shop", "orders", commit="always")  # mistake
    client.consumer("shop", "orders", start="last")  # mistake
    client.create_topic("shop")  # mistake
    headrace.connect(url=7)  # mistake
    headrace.Clinet()  # mistake
    with client.producer("shop", "orders") as producer:
        producer.send("text")  # mistake
        producer.send(b"x", headers={"name": None})  # mistake
        producer.send(b"x").result().offset + 1  # mistake: there may be none
        producer.write_arrow([b"x"])  # mistake: a list is no table
        producer.write_arrow(client.scan("shop", "orders"), codec="avro")  # mistake
        producer.send_to("shop", "orders", b"x")  # mistake: it has a topic
    with client.direct_producer() as direct:
        direct.send(b"x")  # mistake: it has none
    client.direct_producer(linger=1)  # mistake: it waits for the answer
