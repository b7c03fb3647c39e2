"""The same algorithm as a competent user would write it with Keras alone: eagerly, and with `tf.function`."""
